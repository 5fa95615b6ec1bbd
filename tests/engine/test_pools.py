"""The threads that synchronous work runs in, and how an event loop hears what came of it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from criogen_threads.engine.conversation import Conversation
from criogen_threads.engine.pools import DaemonPool, in_database, save_in_tool_thread
from tests.support import an_agent

said = contextvars.ContextVar("said", default="nothing")


async def test_a_job_gets_the_caller_s_context_and_its_caller_what_it_returns_or_raises() -> None:
    pool = DaemonPool("one", lambda: 1)
    said.set("something")
    assert await pool.submit(said.get) == "something"
    with pytest.raises(ZeroDivisionError):
        await pool.submit(lambda: 1 // 0)
    with pytest.raises(RuntimeError, match="StopIteration was raised"):
        await pool.submit(lambda: next(iter(())))


async def test_a_job_whose_caller_has_gone_is_not_begun_and_one_that_is_under_way_is_not_heard() -> None:
    pool, begun, go_on, done = DaemonPool("one", lambda: 1), threading.Event(), threading.Event(), []

    def slow() -> None:
        begun.set()
        go_on.wait(20)
        done.append("slow")

    under_way, waiting = pool.submit(slow), pool.submit(lambda: done.append("never"))
    await asyncio.to_thread(begun.wait, 20)
    for future in (under_way, waiting):
        future.cancel()
    go_on.set()
    await pool.submit(lambda: done.append("next"))
    assert done == ["slow", "next"]


def test_a_loop_that_is_closed_before_its_job_ends_costs_the_pool_nothing() -> None:
    pool, begun, go_on = DaemonPool("one", lambda: 1), threading.Event(), threading.Event()

    async def leave() -> None:
        pool.submit(lambda: (begun.set(), go_on.wait(20)))
        await asyncio.to_thread(begun.wait, 20)

    asyncio.run(leave())
    go_on.set()

    async def again() -> int:
        return await pool.submit(lambda: 1)

    assert asyncio.run(again()) == 1


@pytest.mark.django_db(transaction=True)
async def test_a_thread_that_is_taken_is_run_even_where_reading_it_on_that_visit_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, failures = Conversation.read, []

    def failing_once(tail: Any) -> Conversation:
        if not failures:
            failures.append(tail)
            raise ConnectionError("gone")
        return read(tail)

    monkeypatch.setattr(Conversation, "read", failing_once)
    chat = an_agent("one").thread("a")
    assert (await chat.send("hello")).text == "one"
    assert len(failures) == 1
    assert len(await chat.messages()) == 2


@pytest.mark.parametrize("doing", [in_database, save_in_tool_thread])
async def test_p9_whoever_saves_hears_of_a_cancel_after_the_save(doing: Any) -> None:
    """However often it is cancelled: what was written has to be known."""
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def save() -> None:
        begun.set()
        assert go_on.wait(20)
        ended.append("saved")

    task = asyncio.create_task(doing(save))
    assert await asyncio.to_thread(begun.wait, 20)
    for _ in range(2):
        task.cancel()
        await asyncio.wait({task}, timeout=0.05)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["saved"]
