"""The beat of a process, what it notices, and what the others see of it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError
from django.db.models import F
from django.db.models.functions import Now

from criogen_threads import errors
from criogen_threads.agents import Tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import lease as leases
from criogen_threads.engine.journal import leftovers, takes, turns, workers
from criogen_threads.engine.journal.turns import Turn
from criogen_threads.ids import new_id
from criogen_threads.models import Thread, Worker
from tests.support import Gate, an_agent, call, gated, in_db

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

LEASE, BEAT = 1.0, 0.2
KEY = "user-1"


@pytest.fixture(autouse=True)
def short_lease(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"LEASE_SECONDS": LEASE, "HEARTBEAT_SECONDS": BEAT, "BUSY_TIMEOUT": 5}


async def until(true: Callable[[], Any], seconds: float = 10) -> None:
    """Look at the rows until it is true."""
    deadline = time.monotonic() + seconds
    while not await in_db(true):
        assert time.monotonic() < deadline, "it does not come true"
        await asyncio.sleep(0.02)


async def a_live_run() -> asyncio.Task[Any]:
    """A turn whose model answers when it is stopped, and not before."""
    gate = Gate()
    agent = an_agent(model=gated(gate, "too late"))
    task = asyncio.ensure_future(agent.thread(KEY).send("Hello"))
    await asyncio.wait_for(gate.reached.wait(), 10)
    return task


def stands() -> tuple[Any, ...]:
    """What a stopped run leaves: nothing but its input."""
    thread = Thread.objects.select_related("current_run").get()
    assert thread.current_run is not None
    return thread.version, thread.status, thread.current_run.status


UNSAVED = (1, "running", "in_progress")


# A beat that fails -------------------------------------------------------------------------------------------------


async def test_a_beat_that_failed_is_unknown_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on as long as the lease may still be good; then its caller gets ``lease_lost``."""
    task = await a_live_run()
    worker, failed = leases.current(), threading.Event()

    def renew(_: UUID) -> bool:
        failed.set()
        raise OperationalError("the network is gone")

    monkeypatch.setattr(workers, "renew", renew)
    await in_db(failed.wait, 5)
    deadline = worker.deadline
    await asyncio.sleep(max(0, deadline - time.monotonic() - 0.3))
    assert worker.alive
    assert not task.done()
    with pytest.raises(errors.LeaseLostError):
        await asyncio.wait_for(task, 5)
    assert time.monotonic() >= deadline
    assert await in_db(stands) == UNSAVED


async def test_a_beat_that_hangs_is_watched_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The beating thread stands still in the database: the run's own loop sees that the time is over."""
    task = await a_live_run()
    go_on = threading.Event()
    monkeypatch.setattr(workers, "renew", lambda _: go_on.wait(20))
    try:
        with pytest.raises(errors.LeaseLostError):
            await asyncio.wait_for(task, 5)
    finally:
        go_on.set()
    assert await in_db(stands) == UNSAVED


async def test_the_deadline_counts_from_before_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat whose answer took its time: the lease is not longer than the database's."""
    worker = leases.current()
    await in_db(worker.ensure)
    renewed = threading.Event()

    def slowly(_: UUID) -> bool:
        time.sleep(0.5)
        renewed.set()
        return True

    monkeypatch.setattr(workers, "renew", slowly)
    await in_db(renewed.wait, 5)
    await asyncio.sleep(0.05)
    assert worker.deadline - time.monotonic() < LEASE - 0.5


async def test_no_tool_starts_after_the_deadline() -> None:
    """The clock is looked at before each tool too, not only by timers."""
    ran = []

    def respond(_messages: object, _tools: object) -> list[dict[str, Any]]:
        leases.current().deadline = 0.0
        return [call("count")]

    def count() -> str:
        ran.append(1)
        return "counted"

    agent = an_agent(model=ScriptedModel(respond), tools=[Tool(count)])
    with pytest.raises(errors.LeaseLostError):
        await agent.thread(KEY).send("Hello")
    assert not ran


# A worker that was taken for dead ------------------------------------------------------------------------------------


async def test_a_worker_that_was_taken_for_dead_begins_again_as_a_new_one() -> None:
    """Zero rows renewed: its runs stop with ``lease_lost``, unsaved, and the next one has another holder."""
    task = await a_live_run()
    old = leases.current().id
    await in_db(Worker.objects.filter(pk=old).update, expires_at=Now())
    with pytest.raises(errors.LeaseLostError):
        await asyncio.wait_for(task, 5)
    assert await in_db(stands) == UNSAVED
    await until(lambda: Worker.objects.alive().exists())  # type: ignore[attr-defined]
    assert leases.current().id != old
    agent = an_agent("answered")
    assert (await agent.thread(KEY).retry()).text == "answered"


# A thread that nobody works on ---------------------------------------------------------------------------------------


async def test_a_thread_whose_run_is_gone_is_let_go_while_its_worker_lives() -> None:
    """A save died with its connection: the thread names this process, in which nothing works on it."""
    worker = await in_db(leases.current().ensure)
    await in_db(turns.begin, Turn(KEY, "helper", [{"text": "Hello"}]), worker)
    await until(lambda: Thread.objects.get().holder is None)
    assert await in_db(Worker.objects.alive().filter(pk=worker).exists)  # type: ignore[attr-defined]
    agent = an_agent("answered")
    with pytest.raises(errors.ThreadInterruptedError):
        await agent.thread(KEY).send("Are you there?")
    assert (await agent.thread(KEY).retry()).text == "answered"


def test_a_thread_that_was_only_just_taken_is_not_let_go() -> None:
    """Its run is on its way from the save that took it to the loop: it has to be missed twice, under one fence."""
    worker = leases.Worker()  # whose beat is this test
    workers.register(worker.id, "host", 1)
    turns.begin(Turn(KEY, "helper", [{"text": "Hello"}]), worker.id)
    worker._look(beats=True)
    assert Thread.objects.get().holder == worker.id
    Thread.objects.update(fence=F("fence") + 1)  # it was let go and taken again in between
    worker._look(beats=True)
    assert Thread.objects.get().holder == worker.id
    worker._look(beats=True)
    assert Thread.objects.get().holder is None


async def test_f06_it_is_not_let_go_under_the_fence_of_a_later_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the release the thread was taken again: that run keeps it."""
    worker = await in_db(leases.current().ensure)
    await in_db(turns.begin, Turn(KEY, "helper", [{"text": "Hello"}]), worker)
    old = await in_db(Thread.objects.get)
    looked = threading.Event()

    def held_by(_: UUID) -> dict[UUID, tuple[int, None]]:
        looked.set()
        return {old.pk: (old.fence, None)}

    await in_db(Thread.objects.update, fence=old.fence + 1)
    monkeypatch.setattr(workers, "held_by", held_by)
    await in_db(looked.wait, 5)
    await asyncio.sleep(4 * BEAT)
    assert (await in_db(Thread.objects.get)).holder == worker


# A tool longer than the lease ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async", "atomic"])
async def test_f08_a_tool_longer_than_the_lease_does_not_lose_it(kind: str) -> None:
    """It runs once, and nobody can take its thread meanwhile."""
    ran, begun = [], threading.Event()
    seconds = LEASE + 3 * BEAT

    def wait() -> str:
        ran.append(1)
        begun.set()
        time.sleep(seconds)
        return "waited"

    async def wait_async() -> str:
        ran.append(1)
        begun.set()
        await asyncio.sleep(seconds)
        return "waited"

    tool = Tool(wait_async, name="wait") if kind == "async" else Tool(wait, atomic=kind == "atomic")
    agent = an_agent([call("wait")], "done", tools=[tool])
    task = asyncio.ensure_future(agent.thread(KEY).send("Hello"))
    await in_db(begun.wait, 5)
    end = time.monotonic() + seconds - BEAT
    other = new_id()
    while time.monotonic() < end:
        if kind != "atomic":
            assert await in_db(takes.retry, KEY, other, run_id=new_id()) is None
            assert await in_db(Thread.objects.held().exists)  # type: ignore[attr-defined]
        await asyncio.sleep(BEAT)
    assert (await task).text == "done"
    assert ran == [1]


# The end of a process ------------------------------------------------------------------------------------------------


async def test_a_graceful_stop_gives_live_runs_their_grace() -> None:
    gate = Gate()
    agent = an_agent(model=gated(gate, "in time"))
    task = asyncio.ensure_future(agent.thread(KEY).send("Hello"))
    await gate.reached.wait()
    stopping = asyncio.ensure_future(asyncio.to_thread(leases.stop, 10))
    await until(lambda: leases.current().stopping)
    with pytest.raises(errors.ShuttingDownError):
        await agent.thread("another").send("Hello")
    assert await in_db(Worker.objects.alive().exists)  # type: ignore[attr-defined]  # last of all
    gate.open()
    assert (await task).text == "in time"
    await stopping
    assert not await in_db(Worker.objects.exists)


async def test_a_graceful_stop_abandons_the_rest_unsaved_and_expires_last() -> None:
    """Interrupted at once, for whoever comes next; queued runs may be dispatched at once as well."""
    task = await a_live_run()
    submitted = await in_db(turns.submit, Turn(KEY, "helper", [{"text": "And this"}]), leases.current().id)
    assert await in_db(leftovers.forsaken, new_id()) == []
    await asyncio.to_thread(leases.stop, 0.1)
    with pytest.raises(errors.ShuttingDownError):
        await task
    assert await in_db(stands) == UNSAVED
    assert await in_db(Thread.objects.interrupted().exists)  # type: ignore[attr-defined]
    await in_db(Thread.objects.update, status="failed", holder=None)  # as if the first one had been seen to
    assert await in_db(leftovers.forsaken, new_id()) == [submitted.run_id]
