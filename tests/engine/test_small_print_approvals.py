"""Answers that come at the worst moment, and what a crash makes of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.engine.journal import saves
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.recovery import recover
from criogen_threads.models import Run, Thread, ToolCall
from tests.support import Gate, an_agent, call, die, in_db, refused, results, texts

if TYPE_CHECKING:
    from uuid import UUID

    from pytest_django.fixtures import SettingsWrapper

    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)


class Payments:
    """A tool that needs a person; it can be held up inside."""

    def __init__(self, *, answers: int = 1) -> None:
        self.ran: list[str] = []
        self.gate: Gate | None = None
        self.chat = an_agent([call("pay")] * answers, "done", "next", tools=[self.tool]).thread("one")

    @property
    def tool(self) -> Any:
        @tool(approval="staff")
        async def pay() -> str:
            self.ran.append("paid")
            if self.gate is not None:
                await self.gate.wait()
            return "paid"

        return pay


async def answer_and_die(chat: ThreadHandle) -> None:
    """The last answer is committed; whoever was to go on from there dies before it does anything."""
    await in_db(chat.record, None, Decision(approve=True))
    await die()


async def test_an_answer_that_comes_while_the_loop_decides_to_suspend_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payments = Payments(answers=2)
    suspend = saves.suspend
    answered: list[int] = []

    def answered_just_before(lease: Any, checkpoint_id: UUID, *behind: Any) -> Any:
        """Between the decision to suspend and its save, a person answers."""
        if not answered:
            answered.append(1)
            waiting = ToolCall.objects.awaiting_approval().order_by("index")
            payments.chat.record({waiting[0].pk: Decision(approve=True)})
        return suspend(lease, checkpoint_id, *behind)

    monkeypatch.setattr(saves, "suspend", answered_just_before)
    reply = await payments.chat.send("pay")
    assert (reply.status, len(reply.pending)) == ("suspended", 1)
    assert payments.ran == ["paid"]  # the answered one ran before the thread was freed
    assert [c["source"] for c in await payments.chat.history()] == ["suspend", "step", "step", "input"]
    assert (await payments.chat.approve()).text == "done"
    assert payments.ran == ["paid", "paid"]


async def test_the_last_answer_while_the_loop_decides_to_suspend_completes_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payments = Payments()
    suspend = saves.suspend

    def answered_just_before(lease: Any, checkpoint_id: UUID, *behind: Any) -> Any:
        payments.chat.record(None, Decision(approve=False, reason="no"))
        return suspend(lease, checkpoint_id, *behind)

    monkeypatch.setattr(saves, "suspend", answered_just_before)
    assert (await payments.chat.send("pay")).status == "completed"
    assert payments.ran == []
    assert "suspended" not in {checkpoint["status"] for checkpoint in await payments.chat.history()}


async def test_f31_a_send_waits_behind_an_answered_run_whose_dispatcher_died_and_has_it_taken_up() -> None:
    payments = Payments()
    await payments.chat.send("pay")
    await answer_and_die(payments.chat)
    assert await in_db(Thread.objects.due().count) == 1
    with refused("thread_busy"):
        await payments.chat.send("no", on_busy="reject")
    assert (await payments.chat.send("and then?")).text == "next"
    assert payments.ran == ["paid"]
    assert [run["status"] for run in await payments.chat.runs()] == ["completed", "completed"]
    assert texts(await payments.chat.messages()) == [
        "user: pay", "assistant: pay()", "tool: paid", "assistant: done", "user: and then?", "assistant: next",
    ]  # fmt: skip


async def test_f31_retry_takes_an_answered_run_up_and_it_is_no_new_attempt() -> None:
    payments = Payments()
    await payments.chat.send("pay")
    await answer_and_die(payments.chat)
    assert (await payments.chat.retry()).text == "done"
    assert payments.ran == ["paid"]
    assert (await in_db(Run.objects.get)).attempt == 1


async def test_f31_recover_takes_an_answered_run_up_once() -> None:
    payments = Payments()
    await payments.chat.send("pay")
    await answer_and_die(payments.chat)
    found = await asyncio.gather(recover(), recover())
    assert sum(each.answered for each in found) >= 1
    assert payments.ran == ["paid"]
    assert (await in_db(Run.objects.get)).status == "completed"
    assert (await recover()).answered == 0


async def test_f31_a_crash_between_decided_and_started_needs_no_second_decision() -> None:
    payments = Payments()
    await payments.chat.send("pay")
    await answer_and_die(payments.chat)
    assert payments.ran == []
    row = await in_db(ToolCall.objects.get)
    assert (row.status, row.approved, row.started_at) == ("ready", True, None)
    assert (await payments.chat.retry()).status == "completed"
    assert payments.ran == ["paid"]
    assert await in_db(ToolCall.objects.count) == 1


async def test_f31_a_crash_after_started_asks_again_because_its_outcome_is_unknown() -> None:
    payments = Payments()
    payments.gate = Gate()
    await payments.chat.send("pay")
    approving = asyncio.create_task(payments.chat.approve())
    await payments.gate.reached.wait()
    assert (await in_db(ToolCall.objects.get)).status == "running"
    await die(approving)
    payments.gate = None
    reply = await payments.chat.retry()
    assert reply.status == "suspended"
    assert payments.ran == ["paid"]  # not again, before a person has agreed
    first, second = await in_db(lambda: list(ToolCall.objects.order_by("try_number")))
    assert (first.status, second.status, second.try_number) == ("unknown", "awaiting_approval", 2)
    assert (second.step, second.index, second.run_id) == (first.step, first.index, first.run_id)
    with refused("resume_invalid"):
        await payments.chat.decide({first.pk: False})
    assert (await payments.chat.approve()).text == "done"
    assert payments.ran == ["paid", "paid"]


async def test_f16_recover_does_not_answer_for_a_person(settings: SettingsWrapper) -> None:
    payments = Payments()
    await payments.chat.send("pay")
    await die()
    found = await recover()
    assert (found.answered, found.interrupted) == (0, 0)
    assert payments.ran == []
    assert (await in_db(Thread.objects.get)).status == "suspended"


async def test_rewind_to_a_suspended_checkpoint_asks_again() -> None:
    payments = Payments(answers=2)
    await payments.chat.send("pay")
    first, second = await in_db(lambda: list(ToolCall.objects.order_by("index")))
    suspended = (await payments.chat.history())[0]["id"]
    await payments.chat.decide({first.pk: True, second.pk: False})
    assert payments.ran == ["paid"]
    await payments.chat.rewind(suspended)
    with refused("thread_suspended"):
        await payments.chat.send("and?")
    with refused("thread_suspended"):
        await payments.chat.retry()
    with refused("resume_invalid"):
        await payments.chat.decide({first.pk: True})  # f29: an older answer does not count
    runs = await payments.chat.runs()
    assert [run["status"] for run in runs] == ["completed", "requires_action"]
    assert (await payments.chat.reject("not again")).text == "done"
    assert payments.ran == ["paid"]
    said = results(await payments.chat.messages())
    assert ["not again" in result for result in said] == [True, True]


async def test_rewind_between_two_parallel_results_runs_the_second_again_and_keeps_the_first() -> None:
    ran: list[str] = []
    first_saved = asyncio.Event()

    @tool
    async def first() -> str:
        ran.append("first")
        return "first result"

    @tool
    async def second() -> str:
        await first_saved.wait()
        ran.append("second")
        return f"second result, {ran.count('second')}"

    chat = an_agent([call("first"), call("second")], "done", "next", tools=[first, second]).thread("one")
    sending = asyncio.create_task(chat.send("go"))
    while not results(await chat.messages()):
        await asyncio.sleep(0.005)
    between = (await chat.history())[0]["id"]
    first_saved.set()
    await sending
    await chat.rewind(between)
    assert results(await chat.messages()) == ["first result"]
    reply = await chat.retry()
    assert reply.text == "done"
    assert ran == ["first", "second", "second"]
    assert results(await chat.messages()) == ["first result", "second result, 2"]
    forked = (await chat.runs())[-1]
    assert (forked["status"], forked["id"]) == ("completed", reply.run_id)

    await chat.rewind(between)
    await chat.send("something else")
    said = await chat.messages()
    assert [m["role"] for m in said] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert results(said)[0] == "first result"
    assert ran == ["first", "second", "second"]
