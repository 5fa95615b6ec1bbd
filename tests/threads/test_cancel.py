"""Cancelling: by a call, by a cancelled task, by a stream that is left."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from itertools import count
from typing import Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import TextDelta
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine.pools import DaemonPool
from criogen_threads.models import Thread
from tests.support import Gate, an_agent, call, gated, in_db, is_valid, refused

pytestmark = pytest.mark.django_db(transaction=True)


class Endless(ScriptedModel):
    """Streams without end, counts its pieces, and knows when its stream was closed."""

    def __init__(self) -> None:
        super().__init__(lambda messages, tools: "")
        self.pieces = 0
        self.flowing = asyncio.Event()
        self.closed = asyncio.Event()

    async def stream(self, request: Any) -> Any:
        try:
            while True:
                self.pieces += 1
                self.flowing.set()
                yield TextDelta(".")
                await asyncio.sleep(0.001)
        finally:
            self.closed.set()


async def _is_saved_as_cancelled(chat: Any) -> None:
    run = (await chat.runs())[-1]
    assert (run["status"], run["error_code"]) == ("failed", "cancelled")
    head = (await chat.history())[0]
    assert (head["status"], head["source"]) == ("failed", "failure")
    thread = await in_db(Thread.objects.get)
    assert (thread.status, thread.holder, thread.cancel_mark) == ("failed", None, None)


async def test_p9_f18_a_cancelled_call_closes_the_model_s_stream_and_asks_for_no_token_afterwards() -> None:
    model = Endless()
    chat = an_agent(model=model).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await model.flowing.wait()
    assert await chat.cancel() is True
    assert model.closed.is_set()  # f19: when cancel returns, the run has ended
    await _is_saved_as_cancelled(chat)
    pieces = model.pieces
    with refused("cancelled"):
        await task
    await asyncio.sleep(0.01)
    assert model.pieces == pieces


async def test_p9_a_cancelled_task_stops_the_run_and_gets_its_cancellation_once_it_is_saved() -> None:
    model = Endless()
    chat = an_agent(model=model).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await model.flowing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.closed.is_set()
    await _is_saved_as_cancelled(chat)


async def test_p9_asyncio_timeout_around_a_send() -> None:
    model = Endless()
    chat = an_agent(model=model).thread("one")
    sending = asyncio.ensure_future(chat.send("a"))
    await model.flowing.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await sending
    assert model.closed.is_set()
    await _is_saved_as_cancelled(chat)


async def test_p9_a_task_group_cancels_its_siblings() -> None:
    model = Endless()
    chat = an_agent(model=model).thread("one")

    async def fails() -> None:
        await model.flowing.wait()
        raise LookupError("no")

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            group.create_task(chat.send("a"))
            group.create_task(fails())
    assert [type(error) for error in caught.value.exceptions] == [LookupError]
    await _is_saved_as_cancelled(chat)


async def test_p9_a_stream_that_is_closed_stops_the_run_which_is_saved_by_then() -> None:
    model = Endless()
    chat = an_agent(model=model).thread("one")
    async with aclosing(chat.stream("a")) as events:
        async for event in events:
            if event["type"] == "text_delta":
                break
    assert model.closed.is_set()
    await _is_saved_as_cancelled(chat)


async def test_p9_a_stream_that_is_just_left_stops_the_run() -> None:
    model = Endless()
    chat = an_agent(model=model).thread("one")
    async for event in chat.stream("a"):
        if event["type"] == "text_delta":
            break
    await asyncio.wait_for(model.closed.wait(), 5)
    while (await chat.runs())[-1]["status"] == "in_progress":
        await asyncio.sleep(0.005)
    await _is_saved_as_cancelled(chat)


async def test_p9_a_task_that_is_cancelled_inside_a_stream() -> None:
    model = Endless()
    chat = an_agent(model=model).thread("one")

    async def read() -> None:
        async for _ in chat.stream("a"):
            pass

    task = asyncio.create_task(read())
    await model.flowing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(model.closed.wait(), 5)
    while (await chat.runs())[-1]["status"] == "in_progress":
        await asyncio.sleep(0.005)
    await _is_saved_as_cancelled(chat)


def test_p9_a_sync_stream_that_is_left_stops_the_run() -> None:
    chat = an_agent(model=Endless()).thread("one")
    for event in chat.stream_sync("a"):
        if event["type"] == "text_delta":
            break
    deadline = time.monotonic() + 5
    while chat.runs_sync()[-1]["status"] == "in_progress" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [(run["status"], run["error_code"]) for run in chat.runs_sync()] == [("failed", "cancelled")]


async def test_p9_a_stream_that_was_never_read_writes_nothing() -> None:
    stream = an_agent("x").thread("one").stream("a")
    await stream.aclose()  # type: ignore[attr-defined]
    assert not await in_db(Thread.objects.exists)


async def test_p9_a_cancelled_wait_leaves_the_line_and_stores_nothing() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    waiting = asyncio.create_task(chat.send("b"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(await chat.runs()) == 1
    gate.open()
    assert (await first).text == "one"


@pytest.mark.parametrize("moment", range(1, 6))
async def test_p9_a_cancel_at_any_moment_leaves_a_thread_that_takes_the_next_message(
    moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool
    async def look() -> str:
        return "seen"

    chat = an_agent([call("look"), call("look")], "done", "next", "and more", tools=[look]).thread("one")
    loop, jobs, submit = asyncio.get_running_loop(), count(1), DaemonPool.submit

    def cancelling(pool: DaemonPool, job: Any) -> Any:
        if next(jobs) == moment:  # while this very read, save or judgement is under way
            loop.call_soon_threadsafe(task.cancel)
        return submit(pool, job)

    task = asyncio.create_task(chat.send("a"))
    with monkeypatch.context() as patch:
        patch.setattr(DaemonPool, "submit", cancelling)
        with pytest.raises(asyncio.CancelledError):
            await task
    runs = await chat.runs()
    assert all(run["status"] in ("failed", "completed") for run in runs)
    reply = await chat.send("b")
    assert reply.status == "completed"
    assert is_valid(await chat.messages())
