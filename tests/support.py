"""What tests of conversations share: scripted agents, gates, and a process that dies."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import Agent, register, unregister
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine.journal import turns, workers
from criogen_threads.engine.journal.turns import Turn
from criogen_threads.engine.pools import in_database
from criogen_threads.engine.transcript import text_block
from criogen_threads.errors import CriogenError
from criogen_threads.ids import new_id
from criogen_threads.models import Run
from tests.flush import stop_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from django.db.models import QuerySet

    from criogen_threads.agents import Tool

_made: set[str] = set()

in_db = in_database
"""``await in_db(function, …)``: look at rows from an async test."""


def an_agent(*answers: Any, name: str = "helper", tools: Sequence[Tool] = (), **options: Any) -> Agent:
    """A registered agent that gives these answers one after the other, or whose model is ``model``."""
    model = options.pop("model", None) or ScriptedModel.of(*answers)
    _made.add(name)
    return register(Agent(name, model=model, tools=tools, **options))


def forget_agents() -> None:
    """Unregister what ``an_agent`` has made."""
    while _made:
        unregister(_made.pop())


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call block of an answer."""
    return {"tool_call": {"name": name, "arguments": arguments}}


class Heard(ScriptedModel):
    """A scripted model that remembers the conversations that it was given."""

    def __init__(self, *answers: Any) -> None:
        self.given: list[list[dict[str, Any]]] = []
        script = ScriptedModel.of(*answers).respond

        def respond(messages: Any, tools: Any) -> Any:
            self.given.append([dict(message) for message in messages])
            return script(messages, tools)

        super().__init__(respond)


class Gate:
    """A place where a model or a tool stops until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()

    def open(self) -> None:
        self.opened.set()


def gated(gate: Gate, *answers: Any) -> ScriptedModel:
    """A model that stops at the gate before each answer."""
    script = ScriptedModel.of(*answers).respond

    async def respond(messages: Any, tools: Any) -> Any:
        await gate.wait()
        return script(messages, tools)

    return ScriptedModel(respond)


@contextmanager
def refused(code: str) -> Iterator[pytest.ExceptionInfo[CriogenError]]:
    """The block must raise an error of the package with this code."""
    with pytest.raises(CriogenError) as caught:
        yield caught
    assert caught.value.code == code


async def die(*tasks: asyncio.Task[Any]) -> None:
    """What the death of this process leaves: its runs save nothing more, and its lease is over."""
    await in_database(stop_worker)
    for task in tasks:
        with pytest.raises(CriogenError):
            await task


def waits_and_dies(key: str, client_id: str | None = None) -> UUID:
    """A call of another process gets in line before a busy thread, and that process dies; the id of its run."""
    worker = new_id()
    workers.register(worker, "host", 1)
    waiting = turns.begin(Turn(key, "helper", [text_block("b")], client_id=client_id), worker)
    assert isinstance(waiting, turns.Waiting)
    workers.expire(worker)
    return waiting.run_id


def texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """One line a message: its role, and its text, calls or result."""
    return [f"{message['role']}: {_line(message['content'])}" for message in messages]


def _line(content: list[dict[str, Any]]) -> str:
    parts = []
    for block in content:
        if "text" in block:
            parts.append(block["text"])
        elif "tool_call" in block:
            parts.append(f"{block['tool_call']['name']}()")
        elif "tool_result" in block:
            parts.append(str(block["tool_result"]["content"]))
    return " ".join(parts)


def results(messages: Sequence[dict[str, Any]]) -> list[Any]:
    """The contents of the tool results, in order."""
    return [message["content"][0]["tool_result"]["content"] for message in messages if message["role"] == "tool"]


def is_valid(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether a provider would take it: one result for each call, right behind the answer that asked."""
    waiting: list[str] = []
    for message in messages:
        for block in message["content"]:
            if "tool_result" in block:
                if block["tool_result"]["id"] not in waiting:
                    return False
                waiting.remove(block["tool_result"]["id"])
            elif waiting and message["role"] != "assistant":
                return False
            if "tool_call" in block:
                waiting.append(block["tool_call"]["id"])
    return not waiting


def unfinished_runs() -> QuerySet[Run]:
    """Those that wait in line, are under way or wait for people."""
    return Run.objects.exclude(status__in=[Run.Status.COMPLETED, Run.Status.FAILED])
