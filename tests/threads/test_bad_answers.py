"""Models that answer garbage: the model is told, or the run is failed with a code; the thread stays usable."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import Agent, Tool
from criogen_threads.backends.base import ModelAnswer, ModelBackend, ModelRequest
from tests.backends.support import chat_backend, serving
from tests.support import an_agent, call, in_db, is_valid, refused, results
from tests.threads.rows import standing
from tests.threads.values import HALF, NOT_JSON, NUL, nested

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.backends.support import Wire

pytestmark = pytest.mark.django_db(transaction=True)


def add(left: int, right: int = 0) -> str:
    """Add two numbers."""
    return str(left + right)


async def is_usable(chat: Any) -> None:
    reply = await chat.send("And now?")
    assert (reply.status, reply.text) == ("completed", "Well")
    assert is_valid(await chat.messages())


BAD_ARGUMENTS: dict[str, Any] = {
    "text": "no JSON", "broken JSON": '{"left": 1', "empty text": "", "list": [1, 2], "number": 3, "none": None,
    "boolean": True, "wrong type": {"left": "many"}, "missing": {}, "unknown": {"left": 1, "middle": 2},
    "another's key": {"left": 1, "context": {}}, "deep": {"left": nested(80)}, "NUL": {NUL: NUL},
    "a large number": {"left": 10**2500, "more": 1}, "a fraction": {"left": 1.5},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
async def test_b09_arguments_that_do_not_validate_are_told_to_the_model(name: str) -> None:
    asked = {"tool_call": {"name": "add", "arguments": BAD_ARGUMENTS[name]}}
    chat = an_agent([asked, call("add", left=1)], "Well", "Well", tools=[Tool(add)]).thread("t")
    reply = await chat.send("Add")
    assert reply.status == "completed"
    bad, good = sorted(results(reply.messages), key=lambda text: text == "1")
    assert bad.startswith("invalid arguments: ")
    assert good == "1"  # the other call of the batch still runs
    assert reply.messages[1]["content"][0]["tool_call"]["arguments"] == BAD_ARGUMENTS[name]
    await is_usable(chat)


BAD_NAMES = {"300 characters": "n" * 300, "NUL": "a\0dd", "empty": "", "unknown": "subtract", "odd": "../add '\"<b>"}


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_b09_a_tool_that_there_is_not_is_told_to_the_model(name: str) -> None:
    chat = an_agent([call(BAD_NAMES[name])], "Well", "Well", tools=[Tool(add)]).thread("t")
    reply = await chat.send("Add")
    assert reply.status == "completed"
    [text] = results(reply.messages)
    assert "The tools are: add." in text
    assert reply.messages[1]["content"][0]["tool_call"]["name"] == BAD_NAMES[name]
    await is_usable(chat)


async def test_call_ids_that_repeat_or_are_endless_are_no_keys() -> None:
    calls = [{"tool_call": {"id": "same", "name": "add", "arguments": {"left": n}}} for n in range(3)]
    odd = {"tool_call": {"id": NUL * 1000, "name": "add", "arguments": {"left": 9}}}
    chat = an_agent([*calls, odd], "Well", "Well", tools=[Tool(add)]).thread("t")
    reply = await chat.send("Add")
    assert sorted(results(reply.messages)) == ["0", "1", "2", "9"]
    given = [m["content"][0]["tool_result"]["id"] for m in reply.messages if m["role"] == "tool"]
    assert sorted(given) == sorted(["same", "same", "same", NUL * 1000])
    await is_usable(chat)


async def test_f03_a_thousand_calls_in_one_answer_have_a_thousand_results() -> None:
    asked = [call("subtract" if n % 10 else "add", left=n) for n in range(1000)]
    chat = an_agent(asked, "Well", "Well", tools=[Tool(add)]).thread("t")
    reply = await chat.send("Add")
    assert reply.status == "completed"
    told = results(reply.messages)
    assert len(told) == 1000
    assert sorted(int(text) for text in told if text.isdigit()) == list(range(0, 1000, 10))
    await is_usable(chat)


async def test_an_empty_answer_completes_the_run() -> None:
    for content in ([], [{"text": ""}], ""):
        chat = an_agent(content, "Well").thread(f"t{content!r:.3}".replace(" ", ""))
        reply = await chat.send("Hello")
        assert (reply.status, reply.text) == ("completed", "")
        await is_usable(chat)


class Rude(ModelBackend):
    """Gives these contents as they are, good or bad, one after the other."""

    def __init__(self, *contents: Any) -> None:
        self.contents = list(contents)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        content = self.contents.pop(0)
        yield content if isinstance(content, ModelAnswer) else ModelAnswer(content)


WELL = [{"text": "Well"}]


def calling(**fields: Any) -> list[dict[str, Any]]:
    return [{"tool_call": {"id": "1", "name": "add", "arguments": {}} | fields}]


IMPOSSIBLE: dict[str, Any] = {
    **{f"text: {name}": [{"text": value}] for name, value in NOT_JSON.items()},
    "NaN as an argument": calling(arguments={"left": math.nan}),
    "half a pair as an argument": calling(arguments={"left": HALF}),
    "half a pair as a name": calling(name=HALF),
    "no name": calling(name=None),
    "a name of numbers": calling(name=[1]),
    "no id": calling(id=None),
    "a call that is none": [{"tool_call": "add"}],
    "a call of nothing": [{"tool_call": {}}],
    "a number as text": [{"text": 5}],
    "no list": "Well",
    "no content": None,
    "no blocks": ["Well"],
    "a block of nothing": [{}],
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
async def test_b10_an_answer_that_cannot_be_stored_fails_the_run_with_a_code(name: str) -> None:
    bad = IMPOSSIBLE[name]
    chat = an_agent(model=Rude(bad, bad, WELL, WELL), tools=[Tool(add)]).thread("t")
    with refused("model_failed"):
        await chat.send("Hello")
    run = await chat.get_current_run()
    assert run is not None
    assert (run["status"], run["error_code"]) == ("failed", "model_failed")
    assert run["last_error"]
    assert len(await chat.messages()) == 1
    assert (await in_db(standing))["ToolCall"] == 0
    model = chat.agent.backend
    assert isinstance(model, Rude)
    model.contents = [WELL, WELL]
    assert (await chat.retry()).text == "Well"
    await is_usable(chat)


async def test_two_answers_to_one_request_are_a_failure_not_a_mixture() -> None:
    class Twice(ModelBackend):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            yield ModelAnswer([{"text": "one"}])
            yield ModelAnswer([{"text": "two"}])

    chat = an_agent(model=Twice()).thread("t")
    assert (await chat.send("Hello")).text == "two"
    assert len(await chat.messages()) == 2


ON_THE_WIRE = {
    "NaN": '{"left": NaN}', "inf": '{"left": Infinity}', "1e999": '{"left": 1e999}', "list": "[1]", "text": '"left"',
    "number": "1", "null": "null", "cut": '{"left": 1', "words": "left is 1", "half a pair": '{"left": "\\ud83d"}',
    "deep": '{"left": ' + "[" * 5000 + "]" * 5000 + "}", "5,000 digits": '{"left": ' + "1" * 5000 + "}",
}  # fmt: skip


@pytest.mark.parametrize("name", ON_THE_WIRE)
async def test_b09_garbage_on_the_wire_is_told_to_the_model(name: str) -> None:
    def answer(wire: Wire) -> None:
        wire.start()
        if wire.body["messages"][-1]["role"] == "user" and "Add" in json.dumps(wire.body["messages"][-1]):
            wire.tool_call(0, "one", "add", ON_THE_WIRE[name])
            wire.end("tool_calls")
        else:
            wire.text("Well")
            wire.end()

    with serving(answer) as server:
        chat = Agent("wired", model=chat_backend(server.url), tools=[Tool(add)]).thread("t")
        reply = await chat.send("Add")
        assert (reply.status, reply.text) == ("completed", "Well")
        assert results(reply.messages)[0].startswith("invalid arguments: ")
        await is_usable(chat)
