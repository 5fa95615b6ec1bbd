"""How tools run: side by side, in time, again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from criogen_threads.agents import ToolContext, ToolError, tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import pools
from criogen_threads.engine.pools import DaemonPool
from criogen_threads.models import ToolCall
from tests.support import Gate, Heard, an_agent, call, in_db, is_valid, results
from tests.threads.acting import a_tool, result_of, throw

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_timeout_tells_the_model_and_a_late_result_stays_out(asynchronous: bool) -> None:
    go_on = threading.Event()

    async def slow() -> str:
        await asyncio.sleep(60)
        return "late"

    def slow_sync() -> str:
        go_on.wait(5)
        return "late"

    result = await result_of(a_tool(slow if asynchronous else slow_sync, timeout=0.05))
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

    result = await result_of(a_tool(act, retries=retries))
    assert (len(ran), result["is_error"]) == (tries, not ends_well)
    assert len(set(ran)) == 1  # the same key on every try


@pytest.mark.parametrize("outcome", [ToolError("no"), object()])
async def test_retries_are_for_accidents_not_for_what_a_tool_says(outcome: Any) -> None:
    ran: list[int] = []

    def act() -> Any:
        ran.append(1)
        return throw(outcome) if isinstance(outcome, Exception) else outcome

    await result_of(a_tool(act, retries=3))
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
        assert (context.thread, context.agent, context.locale, dict(context.state)) == (
            "one",
            "helper",
            "de",
            {"plan": "pro"},
        )
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


async def test_f11_tools_that_call_another_agent_leave_it_the_threads_that_its_tools_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = DaemonPool("few", lambda: 2)
    monkeypatch.setattr(pools, "tool_pool", few)

    @tool
    def look_up() -> str:
        return "found"

    respond = ScriptedModel(lambda messages, _: "done" if messages[-1]["role"] == "tool" else [call("look_up")])
    specialist = an_agent(model=respond, name="specialist", tools=[look_up])

    @tool
    def delegate(context: ToolContext, how: str) -> str:
        chat = specialist.thread(f"{how}-of-{context.call_id}")
        if how == "stream":
            return str(list(chat.stream_sync("a"))[-1]["reply"].text)
        return chat.send_sync("a").text

    helper = an_agent([call("delegate", how=how) for how in ("send", "stream") * 3], "done", tools=[delegate])
    async with asyncio.timeout(20):
        reply = await helper.thread("one").send("a")
    assert results(reply.messages) == ["done"] * 6
    async with asyncio.timeout(20):
        while few._threads > 2:
            await few.submit(lambda: None)
