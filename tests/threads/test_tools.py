"""Tools: what the model is told of their results and failures."""

from __future__ import annotations

import asyncio
import enum
import sys
import threading
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from criogen_threads.agents import Tool, ToolContext, ToolError, tool
from criogen_threads.engine.transcript import TOOL_FAILED
from criogen_threads.models import ToolCall
from tests.support import Gate, Heard, an_agent, call, in_db, is_valid

pytestmark = pytest.mark.django_db(transaction=True)


async def _result(made: Tool, block: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run one turn in which the model asks for the tool; the result that it was given."""
    model = Heard([block or call(made.name)], "done")
    chat = an_agent(model=model, tools=[made]).thread("one")
    reply = await chat.send("Hi")
    assert (reply.status, reply.text) == ("completed", "done")
    assert is_valid(model.given[-1])
    result: dict[str, Any] = reply.messages[-2]["content"][0]["tool_result"]
    return result


class Colour(enum.Enum):
    RED = "red"


def _tool(function: Any, **options: Any) -> Tool:
    return Tool(function, name="act", **options)


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "value", ["text", "", {"a": [1, 2.5, None, True]}, [], None, 7, 10**30, "\0 and \U0001f600"], ids=repr
)
async def test_b8_a_result_is_text_or_plain_json_and_comes_back_as_it_was(value: Any) -> None:
    result = await _result(_tool(lambda: value))
    assert (result["content"], result["is_error"]) == (value, False)
    assert type(result["content"]) is type(value)


@pytest.mark.parametrize(
    "value",
    [object(), Colour.RED, (1, 2), {1: 2}, {"a": {1, 2}}, Decimal(1), date(2026, 1, 1), b"x", float("nan"), "\ud800",
     10**5000, [float("inf")]],
    ids=["object", "enum", "tuple", "key", "set", "decimal", "date", "bytes", "nan", "half", "long", "infinite"],
)  # fmt: skip
async def test_b9_f39_f41_a_result_that_is_not_json_is_a_tool_error(value: Any) -> None:
    result = await _result(_tool(lambda: value))
    assert result["is_error"] is True
    assert "not text or JSON" in result["content"]


async def test_a_result_that_refers_to_itself_is_a_tool_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert (await _result(_tool(lambda: loop)))["is_error"] is True


async def test_f40_a_huge_result_is_a_tool_error(settings: Any) -> None:
    settings.CRIOGEN_THREADS = {"MAX_RESULT_BYTES": 1000}
    result = await _result(_tool(lambda: "x" * 1001))
    assert result["is_error"] is True
    assert "1000" in result["content"]


async def test_b9_a_tool_that_raises_tool_error_speaks_to_the_model() -> None:
    result = await _result(_tool(lambda: _raise(ToolError("no such order"))))
    assert (result["content"], result["is_error"]) == ("no such order", True)


@pytest.mark.parametrize("text", ["", "\ud800 half", "a\0b"], ids=["empty", "half", "nul"])
async def test_the_text_of_a_tool_error_can_always_be_stored(text: str) -> None:
    result = await _result(_tool(lambda: _raise(ToolError(text))))
    assert result["is_error"] is True
    assert result["content"]


@pytest.mark.parametrize(
    "error", [RuntimeError("password=hunter2"), KeyError("x"), StopIteration(1), SystemExit(3), TimeoutError(), RecursionError()]
)
async def test_b9_any_other_exception_is_a_generic_error_with_the_traceback_in_the_log(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    result = await _result(_tool(lambda: _raise(error)))
    assert (result["content"], result["is_error"]) == (TOOL_FAILED, True)
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    "error", [RuntimeError("x"), StopIteration(1), StopAsyncIteration(), SystemExit(3), TimeoutError()]
)
async def test_b9_an_async_tool_that_raises(error: BaseException) -> None:
    async def act() -> str:
        raise error

    result = await _result(_tool(act))
    assert (result["content"], result["is_error"]) == (TOOL_FAILED, True)


async def test_sys_exit_in_a_tool_ends_the_tool_and_not_the_site() -> None:
    result = await _result(_tool(lambda: sys.exit("bye")))
    assert result["content"] == TOOL_FAILED


async def test_an_async_tool_that_raises_a_cancellation_ends_itself_only() -> None:
    async def act() -> str:
        raise asyncio.CancelledError

    assert (await _result(_tool(act)))["content"] == TOOL_FAILED


async def test_an_async_tool_that_cancels_its_own_task_ends_itself_only() -> None:
    async def act() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    assert (await _result(_tool(act)))["content"] == TOOL_FAILED


async def test_an_async_tool_that_cancels_its_own_task_and_returns() -> None:
    async def act() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "returned"

    assert (await _result(_tool(act)))["content"] == TOOL_FAILED


async def test_an_async_tool_whose_own_child_was_cancelled() -> None:
    async def act() -> str:
        child = asyncio.ensure_future(asyncio.sleep(60))
        child.cancel()
        await child
        return "never"

    assert (await _result(_tool(act)))["content"] == TOOL_FAILED


async def test_b9_an_unknown_tool_is_told_which_there_are() -> None:
    result = await _result(_tool(lambda: "x"), call("forget"))
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

    result = await _result(_tool(act), {"tool_call": {"name": "act", "arguments": arguments}})
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
    told = {m["content"][0]["tool_result"]["id"]: m["content"][0]["tool_result"] for m in reply.messages if m["role"] == "tool"}
    assert [told[f"call-{n}"]["is_error"] for n in (1, 2, 3, 4)] == [True, False, True, False]
    assert [told[f"call-{n}"]["content"] for n in (2, 4)] == ["seen 1", "seen 2"]


async def test_a_name_that_a_model_made_up_is_cut_to_what_a_column_holds() -> None:
    block = {"tool_call": {"id": "i" * 300, "name": "n\0" * 300, "arguments": {}}}
    result = await _result(_tool(lambda: "x"), block)
    assert result["is_error"] is True
    assert result["id"] == "i" * 300
    row = await in_db(ToolCall.objects.get)
    assert (len(row.name), len(row.call_id)) == (100, 200)


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_timeout_tells_the_model_and_a_late_result_stays_out(asynchronous: bool) -> None:
    go_on = threading.Event()

    async def slow() -> str:
        await asyncio.sleep(60)
        return "late"

    def slow_sync() -> str:
        go_on.wait(5)
        return "late"

    result = await _result(_tool(slow if asynchronous else slow_sync, timeout=0.05))
    go_on.set()
    assert result["is_error"] is True
    assert "0.05 seconds" in result["content"]
    assert "may have taken effect" in result["content"]


@pytest.mark.parametrize(("retries", "tries", "ends_well"), [(0, 1, False), (1, 2, False), (2, 3, True), (5, 3, True)])
async def test_retries_run_a_tool_again_that_raised(retries: int, tries: int, ends_well: bool) -> None:
    ran: list[str] = []

    def act(context: ToolContext) -> str:
        ran.append(context.idempotency_key)
        if len(ran) < 3:
            raise RuntimeError("not yet")
        return "well"

    result = await _result(_tool(act, retries=retries))
    assert (len(ran), result["is_error"]) == (tries, not ends_well)
    assert len(set(ran)) == 1  # the same key on every try


@pytest.mark.parametrize("outcome", [ToolError("no"), object()])
async def test_retries_are_for_accidents_not_for_what_a_tool_says(outcome: Any) -> None:
    ran: list[int] = []

    def act() -> Any:
        ran.append(1)
        return _raise(outcome) if isinstance(outcome, Exception) else outcome

    await _result(_tool(act, retries=3))
    assert ran == [1]


async def test_calls_of_one_answer_run_side_by_side() -> None:
    gates = [Gate(), Gate()]
    barrier = threading.Barrier(2, timeout=5)

    @tool
    async def first() -> str:
        gates[1].open()
        await gates[0].wait()
        return "first"

    @tool
    async def second() -> str:
        gates[0].open()
        await gates[1].wait()
        return "second"

    @tool
    def sync() -> str:
        barrier.wait()
        return "sync"

    calls = [call("first"), call("second"), call("sync"), call("sync")]
    reply = await an_agent(calls, "done", tools=[first, second, sync]).thread("one").send("a")
    assert reply.text == "done"


async def test_f3_every_one_of_twenty_parallel_results_is_there() -> None:
    @tool
    async def look(n: int) -> int:
        return n

    model = Heard([call("look", n=n) for n in range(20)], "done")
    reply = await an_agent(model=model, tools=[look]).thread("one").send("a")
    told = [m["content"][0]["tool_result"] for m in reply.messages if m["role"] == "tool"]
    assert sorted(result["content"] for result in told) == list(range(20))
    assert is_valid(model.given[-1])
    versions = {c["version"] for c in await an_agent("x").thread("one").history(50)}
    assert versions == set(range(1, 24))  # one save each


async def test_the_context_of_a_tool() -> None:
    seen: list[ToolContext] = []

    @tool
    def look(context: ToolContext) -> str:
        seen.append(context)
        return "x"

    chat = an_agent([call("look"), call("look")], "done", tools=[look]).thread("one")
    reply = await chat.send("a", locale="de", plan="pro")
    for context in seen:
        assert (context.thread, context.agent, context.locale, dict(context.state)) == ("one", "helper", "de", {"plan": "pro"})
        assert str(context.run_id) == reply.run_id
        assert (context.actor, context.try_number) == (None, 1)
    rows = await in_db(lambda: set(ToolCall.objects.values_list("pk", flat=True)))
    assert {context.call_id for context in seen} == rows
    assert len({context.idempotency_key for context in seen}) == 2


async def test_a_tool_that_no_longer_exists_when_its_approval_is_given_is_a_tool_error() -> None:
    @tool(approval="staff")
    def refund() -> str:
        return "never"

    await an_agent([call("refund")], "done", tools=[refund]).thread("one").send("a")
    reply = await an_agent([call("refund")], "done").thread("one").approve()
    assert reply.status == "completed"
    assert "There is no tool named 'refund'" in reply.messages[-2]["content"][0]["tool_result"]["content"]
