"""A tool that had started when its process died: rerun, ask, report."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from criogen_threads.agents import ToolContext, tool
from criogen_threads.engine import transcript
from criogen_threads.models import ToolCall
from tests.support import Gate, Heard, an_agent, call, die, in_db, is_valid, refused, results

pytestmark = pytest.mark.django_db(transaction=True)


class Crashed:
    """A thread whose process died inside a tool."""

    def __init__(self, **options: Any) -> None:
        self.gate = Gate()
        self.seen: list[ToolContext] = []

        @tool(**options)
        async def act(context: ToolContext) -> str:
            self.seen.append(context)
            await self.gate.wait()
            return f"acted {len(self.seen)}"

        self.model = Heard([call("act")], "done")
        self.chat = an_agent(model=self.model, tools=[act]).thread("one")

    async def happen(self, *, approve: bool = False) -> None:
        if approve:
            assert (await self.chat.send("a")).status == "suspended"
        task = asyncio.create_task(self.chat.approve() if approve else self.chat.send("a"))
        await self.gate.reached.wait()
        await die(task)
        self.gate.open()

    async def statuses(self) -> list[tuple[int, str]]:
        rows = ToolCall.objects.order_by("try_number").values_list("try_number", "status")
        return await in_db(lambda: list(rows))


async def test_rerun_is_the_default_and_runs_it_again_under_the_same_key() -> None:
    crashed = Crashed()
    await crashed.happen()
    assert (await crashed.chat.retry()).text == "done"
    assert results(crashed.model.given[-1]) == ["acted 2"]
    first, second = crashed.seen
    assert first.idempotency_key == second.idempotency_key != ""
    assert await crashed.statuses() == [(1, "done")]


async def test_report_tells_the_model_that_it_may_have_taken_effect() -> None:
    crashed = Crashed(on_crash="report")
    await crashed.happen()
    assert (await crashed.chat.retry()).text == "done"
    assert results(crashed.model.given[-1]) == [transcript.MAY_HAVE_RUN]
    assert len(crashed.seen) == 1
    assert await crashed.statuses() == [(1, "unknown")]


async def test_ask_lets_a_person_decide_on_a_new_row_of_the_same_call() -> None:
    crashed = Crashed(on_crash="ask")
    await crashed.happen()
    reply = await crashed.chat.retry()
    assert reply.status == "suspended"
    [pending] = reply.pending
    assert (pending["name"], pending["try"], pending["approver"]) == ("act", 2, "staff")
    assert await crashed.statuses() == [(1, "unknown"), (2, "awaiting_approval")]
    rows = await in_db(lambda: list(ToolCall.objects.values_list("run", "step", "index", "message").distinct()))
    assert len(rows) == 1
    assert (await crashed.chat.approve()).text == "done"
    assert results(crashed.model.given[-1]) == ["acted 2"]
    first, second = crashed.seen
    assert (first.try_number, second.try_number) == (1, 2)
    assert first.idempotency_key == second.idempotency_key
    assert is_valid(crashed.model.given[-1])


async def test_ask_and_a_person_says_no() -> None:
    crashed = Crashed(on_crash="ask")
    await crashed.happen()
    await crashed.chat.retry()
    assert (await crashed.chat.reject("I looked: it is done")).text == "done"
    assert len(crashed.seen) == 1
    [result] = results(crashed.model.given[-1])
    assert "I looked" in result


async def test_ask_is_the_default_of_a_tool_that_needs_approval() -> None:
    crashed = Crashed(approval="owner")
    await crashed.happen(approve=True)
    reply = await crashed.chat.retry()
    assert [(p["try"], p["approver"]) for p in reply.pending] == [(2, "owner")]
    await crashed.chat.approve()
    assert len(crashed.seen) == 2


async def test_ask_again_keeps_the_arguments_that_a_person_had_edited() -> None:
    gate, ran = Gate(), []

    @tool(approval="staff")
    async def pay(amount: int) -> str:
        ran.append(amount)
        await gate.wait()
        return "paid"

    chat = an_agent([call("pay", amount=100)], "done", tools=[pay]).thread("one")
    [pending] = (await chat.send("a")).pending
    task = asyncio.create_task(chat.decide({pending["id"]: {"approve": True, "arguments": {"amount": 1}}}))
    await gate.reached.wait()
    await die(task)
    gate.open()
    [again] = (await chat.retry()).pending
    assert again["arguments"] == {"amount": 1}
    await chat.approve()
    assert ran == [1, 1]


async def test_a_second_crash_asks_a_third_time() -> None:
    crashed = Crashed(on_crash="ask")
    await crashed.happen()
    await crashed.chat.retry()
    crashed.gate.opened.clear()
    crashed.gate.reached.clear()
    task = asyncio.create_task(crashed.chat.approve())
    await crashed.gate.reached.wait()
    await die(task)
    crashed.gate.open()
    assert [p["try"] for p in (await crashed.chat.retry()).pending] == [3]


async def test_a_call_that_had_not_started_is_simply_run() -> None:
    crashed = Crashed(approval="staff", on_crash="report")
    await crashed.chat.send("a")
    await die()
    crashed.gate.open()
    assert (await crashed.chat.approve()).text == "done"
    assert results(crashed.model.given[-1]) == ["acted 1"]


async def test_f15_send_after_a_crash_and_a_cancel_says_that_it_may_have_taken_effect() -> None:
    crashed = Crashed()
    await crashed.happen()
    with refused("thread_interrupted"):
        await crashed.chat.send("b")
    assert await crashed.chat.cancel() is True
    await crashed.chat.send("b")
    assert results(crashed.model.given[-1]) == [transcript.MAY_HAVE_RUN]
    assert len(crashed.seen) == 1
