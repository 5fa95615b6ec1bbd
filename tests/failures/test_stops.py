"""Whatever stops a run, the conversation goes on, and what was refused never happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import Agent, ToolContext, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.models import Run, ToolCall
from project.desk.models import CallBack
from tests.processes import spawn
from tests.support import Gate, Heard, an_agent, call, die, gated, in_db, is_valid, refused, results, texts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)


class Stopped:
    """A thread whose run is stopped inside a batch: one tool has ended, one hangs, one waits for a person."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.model = Heard([call("quick"), call("slow"), call("pay")], "fine", "fine again")
        self.chat: ThreadHandle = an_agent(model=self.model, tools=self.tools()).thread("one")

    def tools(self) -> list[Any]:
        @tool
        async def quick() -> str:
            return "quick"

        @tool
        async def slow() -> str:
            await self.gate.wait()
            return "slow"

        @tool(approval="staff")
        def pay() -> str:
            return "paid"

        return [quick, slow, pay]

    async def begin(self) -> asyncio.Task[Any]:
        sending = asyncio.create_task(self.chat.send("a"))
        await self.gate.reached.wait()
        while "quick" not in results(await self.chat.messages()):
            await asyncio.sleep(0.005)
        return sending

    async def cancelled(self) -> None:
        sending = await self.begin()
        await self.chat.cancel()
        with refused("cancelled"):
            await sending

    async def interrupted_and_cancelled(self) -> None:
        await die(await self.begin())
        await self.chat.cancel()

    async def interrupted_and_rewound(self) -> None:
        await die(await self.begin())
        await self.chat.rewind((await self.chat.history())[0]["id"])

    async def suspended_and_cancelled(self) -> None:
        sending = await self.begin()
        self.gate.open()
        assert (await sending).status == "suspended"
        await self.chat.cancel()

    async def suspended_and_rewound_into_the_batch(self) -> None:
        sending = await self.begin()
        between = (await self.chat.history())[0]["id"]
        self.gate.open()
        await sending
        await self.chat.rewind(between)


STOPS: dict[str, Callable[[Stopped], Awaitable[None]]] = {
    name: getattr(Stopped, name)
    for name in (
        "cancelled", "interrupted_and_cancelled", "interrupted_and_rewound", "suspended_and_cancelled",
        "suspended_and_rewound_into_the_batch",
    )
}  # fmt: skip


@pytest.mark.parametrize("stop", STOPS)
async def test_f17_after_any_stop_the_next_message_is_accepted_and_the_model_is_given_a_valid_conversation(
    stop: str,
) -> None:
    stopped = Stopped()
    await STOPS[stop](stopped)
    stopped.gate.open()
    assert (await stopped.chat.send("b")).text == "fine"
    assert (await stopped.chat.send("c")).text == "fine again"
    assert all(is_valid(given) for given in stopped.model.given)
    assert is_valid(await stopped.chat.messages())
    assert results(stopped.model.given[-1])[0] == "quick"
    assert [line for line in texts(await stopped.chat.messages()) if line.startswith("user")] == [
        "user: a", "user: b", "user: c",
    ]  # fmt: skip


async def test_f17_after_a_failure_of_the_model_and_after_a_limit_too() -> None:
    @tool
    def again() -> str:
        return "more"

    model = Heard([call("again")], [call("again")], [call("again")], ModelError("down", passing=False), "never")
    chat = an_agent(model=model, tools=[again], max_steps=2).thread("one")
    with refused("limit_reached"):
        await chat.send("a")
    with refused("model_failed"):
        await chat.send("b")
    with refused("model_failed"):
        await chat.send("c")
    assert all(is_valid(given) for given in model.given)
    assert [line for line in texts(model.given[-1]) if line.startswith("user")] == ["user: a", "user: b", "user: c"]


async def test_f19_cancel_returns_when_the_run_has_ended() -> None:
    gate = Gate()
    ended: list[str] = []

    @tool
    async def slow() -> str:
        try:
            await gate.wait()
        finally:
            await asyncio.sleep(0.05)  # it takes its time to clean up
            ended.append("tool")
        return "never"

    chat = an_agent([call("slow")], tools=[slow]).thread("one")
    sending = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    assert await chat.cancel() is True
    assert ended == ["tool"]
    run = await chat.get_current_run()
    assert run is not None
    assert (run["status"], run["error_code"]) == ("failed", "cancelled")
    assert run["completed_at_ms"] is not None
    with refused("cancelled"):
        await sending


async def test_f19_of_a_run_in_another_process_too() -> None:
    child = spawn("tests.threads.child", "one", "from the child")
    try:
        assert child.stdout is not None
        assert await asyncio.to_thread(child.stdout.readline) == "reached\n"
        chat = an_agent().thread("one")
        assert await chat.cancel() is True
        assert [(run["status"], run["error_code"]) for run in await chat.runs()] == [("failed", "cancelled")]
        assert await asyncio.to_thread(child.stdout.readline) == "cancelled\n"
    finally:
        child.kill()
        child.communicate()


async def test_f21_a_message_that_waits_is_not_lost_when_the_run_before_it_is_stopped() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "answer")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    second = asyncio.create_task(chat.send("b"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    assert await chat.cancel() is True
    with refused("cancelled"):
        await first
    gate.open()
    assert (await second).text == "answer"
    assert [(run["status"], run["error_code"]) for run in await chat.runs()] == [
        ("failed", "cancelled"), ("completed", ""),
    ]  # fmt: skip


async def test_f21_a_message_in_line_that_is_cancelled_is_failed_and_never_runs() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two", "three")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    second, third = await chat.submit("b"), await chat.submit("c")
    assert await chat.cancel(second) is True
    gate.open()
    await first
    while (await chat.get_run(third) or {})["status"] != "completed":
        await asyncio.sleep(0.005)
    assert [run["status"] for run in await chat.runs()] == ["completed", "failed", "completed"]
    assert [line for line in texts(await chat.messages()) if line.startswith("user")] == ["user: a", "user: c"]


class Effects:
    """Tools of every kind that need a person, and what they did."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()

    def agent(self) -> Agent:
        @tool(approval="staff")
        async def in_a_task() -> str:
            return self.effect("in_a_task")

        @tool(approval="owner")
        def in_a_thread() -> str:
            return self.effect("in_a_thread")

        @tool(approval="staff", atomic=True)
        def atomic(context: ToolContext) -> str:
            CallBack.objects.create(phone="1", when="now", note=context.idempotency_key)
            return self.effect("atomic")

        names = ["in_a_task", "in_a_thread", "atomic"]
        return an_agent([call(name) for name in names], "done", "next", tools=[in_a_task, in_a_thread, atomic])

    def effect(self, name: str) -> str:
        self.ran[name] += 1
        return name


@pytest.mark.parametrize("crash", [False, True])
async def test_f23_a_rejected_tool_never_runs(crash: bool) -> None:
    effects = Effects()
    chat = effects.agent().thread("one")
    await chat.send("a")
    if crash:
        await in_db(chat.record, None, Decision(approve=False, reason="no"))
        await die()
        reply = await chat.retry()
    else:
        reply = await chat.reject("no")
    assert reply.text == "done"
    await chat.send("b")
    assert effects.ran == {}
    assert not await in_db(CallBack.objects.exists)
    assert await in_db(lambda: set(ToolCall.objects.values_list("status", "started_at"))) == {("rejected", None)}
    assert await in_db(lambda: set(Run.objects.values_list("status", flat=True))) == {"completed"}


async def test_f23_rejected_beside_approved_ones() -> None:
    effects = Effects()
    chat = effects.agent().thread("one")
    first, second, third = (await chat.send("a")).pending
    await chat.decide({first["id"]: False, second["id"]: True})
    await chat.decide({third["id"]: False})
    assert effects.ran == {"in_a_thread": 1}
    assert not await in_db(CallBack.objects.exists)
