"""Tools: what the model is told of their results and failures."""

from __future__ import annotations

import asyncio
import enum
import sys
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from criogen_threads.agents import ToolError, tool
from criogen_threads.engine.transcript import TOOL_FAILED
from criogen_threads.models import ToolCall
from tests.support import Heard, an_agent, call, in_db
from tests.threads.acting import a_tool, result_of, throw

pytestmark = pytest.mark.django_db(transaction=True)


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value", ["text", "", {"a": [1, 2.5, None, True]}, [], None, 7, 10**30, "\0 and \U0001f600"], ids=repr
)
async def test_b8_a_result_is_text_or_plain_json_and_comes_back_as_it_was(value: Any) -> None:
    result = await result_of(a_tool(lambda: value))
    assert (result["content"], result["is_error"]) == (value, False)
    assert type(result["content"]) is type(value)


@pytest.mark.parametrize(
    "value",
    [object(), Colour.RED, (1, 2), {1: 2}, {"a": {1, 2}}, Decimal(1), date(2026, 1, 1), b"x", float("nan"), "\ud800",
     10**5000, [float("inf")]],
    ids=["object", "enum", "tuple", "key", "set", "decimal", "date", "bytes", "nan", "half", "long", "infinite"],
)  # fmt: skip
async def test_b9_f39_f41_a_result_that_is_not_json_is_a_tool_error(value: Any) -> None:
    result = await result_of(a_tool(lambda: value))
    assert result["is_error"] is True
    assert "not text or JSON" in result["content"]


async def test_a_result_that_refers_to_itself_is_a_tool_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert (await result_of(a_tool(lambda: loop)))["is_error"] is True


async def test_f40_a_huge_result_is_a_tool_error(settings: Any) -> None:
    settings.CRIOGEN_THREADS = {"MAX_RESULT_BYTES": 1000}
    result = await result_of(a_tool(lambda: "x" * 1001))
    assert result["is_error"] is True
    assert "1000" in result["content"]


async def test_b9_a_tool_that_raises_tool_error_speaks_to_the_model() -> None:
    result = await result_of(a_tool(lambda: throw(ToolError("no such order"))))
    assert (result["content"], result["is_error"]) == ("no such order", True)


@pytest.mark.parametrize("text", ["", "\ud800 half", "a\0b"], ids=["empty", "half", "nul"])
async def test_the_text_of_a_tool_error_can_always_be_stored(text: str) -> None:
    result = await result_of(a_tool(lambda: throw(ToolError(text))))
    assert result["is_error"] is True
    assert result["content"]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("password=hunter2"),
        KeyError("x"),
        StopIteration(1),
        SystemExit(3),
        TimeoutError(),
        RecursionError(),
    ],
)
async def test_b9_any_other_exception_is_a_generic_error_with_the_traceback_in_the_log(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    result = await result_of(a_tool(lambda: throw(error)))
    assert (result["content"], result["is_error"]) == (TOOL_FAILED, True)
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    "error", [RuntimeError("x"), StopIteration(1), StopAsyncIteration(), SystemExit(3), TimeoutError()]
)
async def test_b9_an_async_tool_that_raises(error: BaseException) -> None:
    async def act() -> str:
        raise error

    result = await result_of(a_tool(act))
    assert (result["content"], result["is_error"]) == (TOOL_FAILED, True)


async def test_sys_exit_in_a_tool_ends_the_tool_and_not_the_site() -> None:
    result = await result_of(a_tool(lambda: sys.exit("bye")))
    assert result["content"] == TOOL_FAILED


async def test_an_async_tool_that_raises_a_cancellation_ends_itself_only() -> None:
    async def act() -> str:
        raise asyncio.CancelledError

    assert (await result_of(a_tool(act)))["content"] == TOOL_FAILED


async def test_an_async_tool_that_cancels_its_own_task_ends_itself_only() -> None:
    async def act() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    assert (await result_of(a_tool(act)))["content"] == TOOL_FAILED


async def test_an_async_tool_that_cancels_its_own_task_and_returns() -> None:
    async def act() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "returned"

    assert (await result_of(a_tool(act)))["content"] == TOOL_FAILED


async def test_an_async_tool_whose_own_child_was_cancelled() -> None:
    async def act() -> str:
        child = asyncio.ensure_future(asyncio.sleep(60))
        child.cancel()
        await child
        return "never"

    assert (await result_of(a_tool(act)))["content"] == TOOL_FAILED


async def test_b9_an_unknown_tool_is_told_which_there_are() -> None:
    result = await result_of(a_tool(lambda: "x"), call("forget"))
    assert result["is_error"] is True
    assert "forget" in result["content"]
    assert "act" in result["content"]


@pytest.mark.parametrize(
    "arguments", [{"n": "many"}, {}, {"n": 1, "more": 2}, '{"n": 1', "[1]", {"n": None}, {"n": float(10**30)}]
)
async def test_b9_broken_arguments_are_told_to_the_model_and_the_tool_is_not_run(arguments: Any) -> None:
    ran: list[int] = []

    def act(n: int) -> str:
        ran.append(n)
        return "ran"

    result = await result_of(a_tool(act), {"tool_call": {"name": "act", "arguments": arguments}})
    assert result["is_error"] is True
    assert "n" in result["content"]
    assert ran == []


async def test_b9_a_broken_call_does_not_keep_its_siblings_from_running() -> None:
    @tool
    def look(n: int) -> str:
        return f"seen {n}"

    calls = [call("look", n="x"), call("look", n=1), call("nothing"), call("look", n=2)]
    model = Heard(calls, "done")
    reply = await an_agent(model=model, tools=[look]).thread("one").send("a")
    told = {
        m["content"][0]["tool_result"]["id"]: m["content"][0]["tool_result"]
        for m in reply.messages
        if m["role"] == "tool"
    }
    assert [told[f"call-{n}"]["is_error"] for n in (1, 2, 3, 4)] == [True, False, True, False]
    assert [told[f"call-{n}"]["content"] for n in (2, 4)] == ["seen 1", "seen 2"]


async def test_a_name_that_a_model_made_up_is_cut_to_what_a_column_holds() -> None:
    block = {"tool_call": {"id": "i" * 300, "name": "n\0" * 300, "arguments": {}}}
    result = await result_of(a_tool(lambda: "x"), block)
    assert result["is_error"] is True
    assert result["id"] == "i" * 300
    row = await in_db(ToolCall.objects.get)
    assert (len(row.name), len(row.call_id)) == (100, 200)
