"""The agent of the crash tests: its four tools leave a trace of every effect, and its model refuses any
conversation but the expected one."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from criogen_threads.agents import Agent, Tool, ToolContext
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine.transcript import MAY_HAVE_RUN
from project.desk.models import CallBack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.crash.points import Probe

TEXTS = ("Take care of my journey.", "Thank you.")
ANSWERS = ("All is done.", "You are welcome.")
ASKED = ("plain", "slow", "book", "pay")
RESULTS: dict[str, Any] = {"plain": {"found": 3}, "slow": "it took a while", "book": "booked", "pay": "paid"}
SLOW_SECONDS = 0.05


def append(path: Path, line: str) -> None:
    """Add a line: whole or not at all, whatever happens to this process next."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


class Ledger:
    """The outside world: what the tools did to it."""

    def __init__(self, folder: Path) -> None:
        self.probe: Probe | None = None
        self.open(folder)

    def open(self, folder: Path) -> None:
        """Write into another folder from now on."""
        self.path = folder / "ledger"
        self.refused_path = folder / "refused"

    def effect(self, name: str, context: ToolContext) -> None:
        """A tool takes effect; the process may end just before it and just after it."""
        self._reach(f"in {name}, before its effect")
        append(self.path, f"{name} {context.idempotency_key}")
        self._reach(f"in {name}, after its effect")

    def _reach(self, point: str) -> None:
        if self.probe is not None:
            self.probe.reach(point)

    @property
    def effects(self) -> Counter[str]:
        """How often each call took effect, by its idempotency key."""
        return Counter(line.partition(" ")[2] for line in lines(self.path))

    @property
    def refused(self) -> list[str]:
        """What the model was asked that it should not have been."""
        return lines(self.refused_path)


def build(ledger: Ledger, on_crash: str) -> Agent:
    """The agent, new in each process.

    Args:
        on_crash: That of the slow tool.
    """

    def plain(context: ToolContext) -> dict[str, int]:
        """Looks something up."""
        ledger.effect("plain", context)
        return {"found": 3}

    def slow(context: ToolContext) -> str:
        """Takes a while."""
        time.sleep(SLOW_SECONDS)
        ledger.effect("slow", context)
        return "it took a while"

    def book(context: ToolContext) -> str:
        """Writes to the database of the site."""
        CallBack.objects.create(phone="1", when="now", note=context.idempotency_key)
        ledger.effect("book", context)
        return "booked"

    def pay(context: ToolContext) -> str:
        """Needs a person's consent."""
        ledger.effect("pay", context)
        return "paid"

    tools = [
        Tool(plain),
        Tool(slow, on_crash=on_crash),
        Tool(book, atomic=True),
        Tool(pay, approval="owner"),
    ]
    return Agent("crash", model=ScriptedModel(_Strict(ledger, on_crash)), tools=tools)


class _Strict:
    """Answers one conversation, and refuses every other: lost, doubled, reordered or altered messages."""

    def __init__(self, ledger: Ledger, on_crash: str) -> None:
        self.ledger = ledger
        self.on_crash = on_crash

    def __call__(self, messages: Sequence[Mapping[str, Any]], _tools: object) -> str | list[dict[str, Any]]:
        try:
            return self._answer(list(messages))
        except AssertionError as problem:
            said = json.dumps([dict(message) for message in messages])
            append(self.ledger.refused_path, f"{problem!s} {said}".replace("\n", " "))
            raise ModelError("this is not the expected conversation", passing=False) from None

    def _answer(self, messages: list[Mapping[str, Any]]) -> str | list[dict[str, Any]]:
        said = iter(messages)
        _expect(next(said), "user", TEXTS[0])
        if len(messages) == 1:
            return [{"text": "One moment."}, *({"tool_call": {"name": name}} for name in ASKED)]
        self._expect_calls(next(said))
        self._expect_results([next(said, {}) for _ in ASKED])
        if len(messages) == 2 + len(ASKED):
            return ANSWERS[0]
        _expect(next(said), "assistant", ANSWERS[0])
        _expect(next(said, {}), "user", TEXTS[1])
        assert not list(said), "more than was said"
        return ANSWERS[1]

    def _expect_calls(self, message: Mapping[str, Any]) -> None:
        calls = [
            {"tool_call": {"id": f"call-{number}", "arguments": {}, "name": name}}
            for number, name in enumerate(ASKED, 1)
        ]
        assert message["role"] == "assistant", "no answer after the question"
        assert message["content"] == [{"text": "One moment."}, *calls], "another answer"

    def _expect_results(self, messages: list[Mapping[str, Any]]) -> None:
        """One result for each call, in the order in which they arrived."""
        found = {name: result for message in messages for name, result in _results(message)}
        assert sorted(found) == sorted(ASKED), "not one result for each call"
        for name, (call_id, content, is_error) in found.items():
            assert call_id == f"call-{ASKED.index(name) + 1}", "a result of another call"
            if name == "slow" and self.on_crash == "report" and is_error:
                assert content == MAY_HAVE_RUN, "another report"
            else:
                assert (content, is_error) == (RESULTS[name], False), "another result"


def _results(message: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, Any, bool]]]:
    assert message.get("role") == "tool", "no result behind its answer"
    [block] = message["content"]
    result = block["tool_result"]
    yield result["name"], (result["id"], result["content"], result["is_error"])


def _expect(message: Mapping[str, Any], role: str, text: str) -> None:
    assert message == {"role": role, "content": [{"text": text}]}, f"not {text!r}"
