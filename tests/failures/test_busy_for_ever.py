"""What a dead process leaves is never busy, never running, and never in the way."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models.functions import Now

from criogen_threads.agents import tool
from criogen_threads.engine import lease, listening
from criogen_threads.ids import new_id
from criogen_threads.models import Run, Thread, ToolCall, Worker
from tests.support import Gate, an_agent, call, die, gated, in_db, is_valid, refused, texts, unfinished_runs

if TYPE_CHECKING:
    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)


async def left_by_a_dead_process() -> ThreadHandle:
    """A thread whose process died inside a tool; the tool ends at once when it runs again."""
    gate = Gate()

    @tool
    async def slow() -> str:
        await gate.wait()
        return "slow result"

    chat = an_agent([call("slow")], "done", "next", tools=[slow]).thread("one")
    sending = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    await die(sending)
    gate.open()
    return chat


async def test_f11_the_end_of_a_run_and_the_freedom_of_its_thread_are_one_commit() -> None:
    """After each commit, the run and its thread say the same."""
    seen: list[tuple[str, str, bool]] = []

    class Watcher:
        def saved(self, change: listening.Change) -> None:
            thread = Thread.objects.select_related("current_run").get(pk=change.thread_id)
            run = thread.current_run
            assert run is not None
            seen.append((run.status, thread.status, thread.holder is not None))

        def live(self, *_: Any) -> None: ...
        def stop(self, *_: Any) -> None: ...

    @tool(approval="staff")
    def pay() -> str:
        return "paid"

    watcher = Watcher()
    listening.watch(watcher)
    try:
        chat = an_agent([call("pay")], "done", tools=[pay]).thread("one")
        await chat.send("a")
        await chat.approve()
        with refused("model_failed"):
            await chat.send("b")
    finally:
        listening.unwatch(watcher)
    assert set(seen) == {
        ("in_progress", "running", True), ("requires_action", "suspended", False), ("completed", "idle", False),
        ("failed", "failed", False),
    }  # fmt: skip


async def test_f11_cancelling_a_dead_run_frees_the_thread() -> None:
    chat = await left_by_a_dead_process()
    with refused("thread_interrupted"):
        await chat.send("b")
    assert await chat.cancel() is True
    thread = await in_db(Thread.objects.select_related("current_run").get)
    assert (thread.status, thread.holder, thread.cancel_mark) == ("failed", None, None)
    assert (thread.current_run.status, thread.current_run.error_code) == ("failed", "cancelled")
    assert (await chat.send("b")).text == "done"
    assert is_valid(await chat.messages())


async def test_f13_a_run_whose_process_died_is_interrupted_without_anybody_who_cleans_up() -> None:
    chat = await left_by_a_dead_process()
    assert await in_db(Thread.objects.interrupted().count) == 1
    assert await in_db(Thread.objects.held().count) == 0
    assert (await chat.retry()).text == "done"
    assert await in_db(Thread.objects.interrupted().count) == 0


@pytest.mark.parametrize("way", ["cancel", "rewind"])
async def test_f13_nothing_says_running_once_it_is_left(way: str) -> None:
    chat = await left_by_a_dead_process()
    assert (await in_db(ToolCall.objects.get)).status == "running"
    if way == "cancel":
        await chat.cancel()
    else:
        await chat.rewind((await chat.history())[-1]["id"])
    assert (await in_db(ToolCall.objects.get)).status == "unknown"
    assert [run["status"] for run in await chat.runs()] == ["failed"]
    assert not await in_db(unfinished_runs().exists)


async def held_by(worker: Worker) -> None:
    """As if that process had the thread, and had never said goodbye."""
    await in_db(worker.save)
    await in_db(Thread.objects.update, holder=worker.pk)


def a_worker(seconds: float) -> Worker:
    """Another process, whose lease ends in so many seconds."""
    return Worker(pk=new_id(), host="elsewhere", pid=1, expires_at=Now() + timedelta(seconds=seconds))


async def test_f14_a_stale_lease_is_taken_over_after_a_restart() -> None:
    chat = await left_by_a_dead_process()
    await held_by(a_worker(-3600))
    with refused("thread_interrupted"):
        await chat.send("b", on_busy="reject")
    assert (await chat.retry()).text == "done"
    assert (await in_db(Thread.objects.get)).holder is None
    assert (await chat.send("b")).text == "next"


@pytest.mark.parametrize("way", ["rewind", "delete", "cancel"])
async def test_f14_and_nothing_else_stumbles_over_it(way: str) -> None:
    chat = await left_by_a_dead_process()
    await held_by(a_worker(-3600))
    if way == "rewind":
        await chat.rewind((await chat.history())[-1]["id"])
        assert (await chat.retry()).text == "done"
    elif way == "delete":
        assert await chat.delete() is True
        assert not await in_db(Run.objects.exists)
    else:
        assert await chat.cancel() is True
        assert (await chat.retry()).text == "done"


async def test_f14_a_live_lease_of_another_process_is_thread_busy() -> None:
    chat = await left_by_a_dead_process()
    head = (await chat.history())[0]["id"]
    await held_by(a_worker(60))
    with refused("thread_busy"):
        await chat.send("b", timeout=0.1)
    with refused("thread_busy"):
        await chat.retry(timeout=0.1)
    with refused("thread_busy"):
        await chat.rewind(head, timeout=0.1)
    with refused("thread_busy"):
        await chat.delete(timeout=0.1)


async def test_f14_a_restart_under_the_same_host_and_process_number_is_another_worker() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    sending = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    before = await in_db(Worker.objects.get)
    await die(sending)
    gate.open()
    assert (await chat.retry()).text == "one"
    after = await in_db(Worker.objects.get)
    assert (before.host, before.pid) == (after.host, after.pid)
    assert before.pk != after.pk == lease.current().id
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]
