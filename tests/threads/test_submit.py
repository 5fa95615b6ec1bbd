"""Submitted turns: saved as queued, run by the dispatcher."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import UUID

import pytest

from criogen_threads.agents import tool, unregister
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import dispatch, lease
from criogen_threads.engine.dispatch import in_process
from criogen_threads.engine.dispatch.executing import execute
from criogen_threads.engine.journal import leftovers
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.models import Run, Thread
from tests.support import Gate, an_agent, call, die, gated, in_db, refused, texts

pytestmark = pytest.mark.django_db(transaction=True)


class Nobody(dispatch.Dispatcher):
    """A dispatcher that only remembers what it was handed."""

    def __init__(self) -> None:
        self.handed: list[Any] = []

    def submit(self, run_id: UUID) -> None:
        self.handed.append(run_id)

    def resume(self, key: str) -> None:
        self.handed.append(key)


@pytest.fixture
def nobody(settings: Any) -> Nobody:
    settings.CRIOGEN_THREADS = {**settings.CRIOGEN_THREADS, "DISPATCHER": f"{__name__}.Nobody"}
    dispatcher = dispatch.get_dispatcher()
    assert isinstance(dispatcher, Nobody)
    dispatcher.handed.clear()
    return dispatcher


class Held(ScriptedModel):
    """Answers when the test says so, from whichever loop it is asked."""

    def __init__(self, *answers: Any) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        script = ScriptedModel.of(*answers).respond

        async def respond(messages: Any, tools: Any) -> Any:
            self.reached.set()
            await asyncio.to_thread(self.go_on.wait, 10)
            return script(messages, tools)

        super().__init__(respond)


async def _ended(chat: Any, run_id: str, status: str = "completed") -> dict[str, Any]:
    for _ in range(1000):
        run = await chat.run(run_id)
        if run and run["status"] == status:
            return dict(run)
        await asyncio.sleep(0.005)
    raise AssertionError(f"the run did not become {status}: {run}")


async def test_f10_a_submitted_message_is_committed_before_the_call_returns(nobody: Nobody) -> None:
    chat = an_agent("one").thread("one")
    run_id = await chat.submit("a", locale="de")
    run = await in_db(Run.objects.get)
    assert (str(run.pk), run.status, run.input, run.locale) == (run_id, "queued", [{"text": "a"}], "de")
    assert nobody.handed == [run.pk]
    assert await chat.messages() == []
    assert (await in_db(Thread.objects.get)).version == 0


async def test_submit_returns_at_once_and_the_dispatcher_runs_it() -> None:
    model = Held("one")
    chat = an_agent(model=model).thread("one")
    run_id = await chat.submit("a")
    await asyncio.to_thread(model.reached.wait, 5)
    assert (await _ended(chat, run_id, "in_progress"))["started_at_ms"]
    model.go_on.set()
    await _ended(chat, run_id)
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]


async def test_submitted_turns_run_in_order_and_a_send_behind_them() -> None:
    model = Held("1", "2", "3", "4")
    chat = an_agent(model=model).thread("one")
    runs = [await chat.submit(text) for text in ("a", "b", "c")]
    sending = asyncio.create_task(chat.send("d"))
    while len(await chat.runs()) < 4:
        await asyncio.sleep(0.005)
    model.go_on.set()
    assert (await sending).text == "4"
    for run_id in runs:
        await _ended(chat, run_id)
    users = [line for line in texts(await chat.messages()) if line.startswith("user")]
    assert users == ["user: a", "user: b", "user: c", "user: d"]


async def test_a_submitted_run_that_fails_is_saved_like_any_other() -> None:
    chat = an_agent(name="helper").thread("one")  # its script is empty
    run = await _ended(chat, await chat.submit("a"), "failed")
    assert run["error_code"] == "model_failed"


async def test_a_submitted_run_can_suspend_and_be_approved() -> None:
    @tool(approval="staff")
    def refund() -> str:
        return "refunded"

    chat = an_agent([call("refund")], "done", tools=[refund]).thread("one")
    run_id = await chat.submit("a")
    await _ended(chat, run_id, "requires_action")
    assert (await chat.approve()).run_id == run_id
    assert (await chat.runs())[0]["status"] == "completed"


async def test_a_submitted_run_can_be_cancelled_in_line_and_under_way() -> None:
    model = Held("one")
    chat = an_agent(model=model).thread("one")
    first = await chat.submit("a")
    await asyncio.to_thread(model.reached.wait, 5)
    second = await chat.submit("b")
    assert await chat.cancel(second) is True
    assert await chat.cancel(first) is True
    model.go_on.set()
    assert [run["error_code"] for run in await chat.runs()] == ["cancelled", "cancelled"]
    assert texts(await chat.messages()) == ["user: a"]


async def test_an_agent_that_is_not_registered_is_agent_not_found_and_the_thread_stays_readable() -> None:
    chat = an_agent("one").thread("one")
    await chat.send("a")
    unregister("helper")
    run = await _ended(chat, await chat.submit("b"), "failed")
    assert run["error_code"] == "agent_not_found"
    assert texts(await chat.messages())[:2] == ["user: a", "assistant: one"]


async def test_a_queued_run_of_a_dead_worker_is_found_and_dispatched_again(nobody: Nobody) -> None:
    chat = an_agent("one").thread("one")
    run_id = await chat.submit("a")
    await die()
    worker = await in_db(lambda: lease.current().ensure())
    assert [str(found) for found in await in_db(leftovers.forsaken, worker)] == [run_id]
    await execute(UUID(run_id))
    await _ended(chat, run_id)
    assert await in_db(leftovers.forsaken, worker) == []


async def test_two_dispatchers_of_one_run_execute_it_once() -> None:
    gate = Gate()
    gate.open()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    run_id = UUID(await chat.submit("a"))
    await asyncio.gather(*(execute(run_id) for _ in range(3)))
    await _ended(chat, str(run_id))
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]


async def test_submitted_runs_stay_in_line_while_the_thread_waits_for_a_person() -> None:
    @tool(approval="staff")
    def refund() -> str:
        return "refunded"

    model = Held([call("refund")], "done", "after")
    chat = an_agent(model=model, tools=[refund]).thread("one")
    await chat.submit("a")
    await asyncio.to_thread(model.reached.wait, 5)
    waiting = await chat.submit("b")
    model.go_on.set()
    await _ended(chat, (await chat.runs())[0]["id"], "requires_action")
    with refused("thread_suspended"):
        await chat.send("c")
    assert (await _ended(chat, waiting, "queued"))["number"] == 2


def test_submit_sync() -> None:
    chat = an_agent("one").thread("one")
    run_id = chat.submit_sync("a")
    assert (chat.run_sync(run_id) or {})["id"] == run_id
    for _ in range(1000):
        if (chat.run_sync(run_id) or {})["status"] == "completed":
            break
        threading.Event().wait(0.005)
    assert texts(chat.messages_sync()) == ["user: a", "assistant: one"]


async def test_the_dispatcher_looks_for_what_nobody_executes(monkeypatch: pytest.MonkeyPatch, nobody: Nobody) -> None:
    @tool(approval="staff")
    def refund() -> str:
        return "refunded"

    agent = an_agent([call("refund")], "done", tools=[refund])
    queued, due = agent.thread("queued"), agent.thread("due")
    [pending] = (await due.send("a")).pending
    await in_db(due.record, {pending["id"]: Decision(approve=True)})  # answered, and never taken up
    run_id = await queued.submit("b")
    monkeypatch.setattr(in_process, "leftovers", leftovers)
    monkeypatch.setattr(in_process, "SCAN_SECONDS", 0.01)
    looking = asyncio.create_task(in_process.InProcess()._scan())
    await _ended(due, pending["run_id"])
    await _ended(queued, run_id, "requires_action")
    looking.cancel()
