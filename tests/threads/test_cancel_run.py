"""cancel_run: which run is stopped, and what it says."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import uuid4

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import lease
from criogen_threads.engine.journal import posts
from criogen_threads.ids import new_id
from criogen_threads.models import Run, Thread
from tests.support import Gate, an_agent, call, die, gated, in_db, refused, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


async def test_p9_retry_can_go_on_after_a_cancel() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "done")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    await chat.cancel()
    with refused("cancelled"):
        await task
    gate.open()
    assert (await chat.retry()).text == "done"


async def test_b6_cancel_run_says_whether_there_was_something_to_stop() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    assert await chat.cancel_run(uuid4()) is False
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    run: Any = await chat.get_current_run()
    assert await chat.cancel_run(uuid4()) is False
    assert await chat.cancel_run("no id") is False
    assert await chat.cancel_run(run["id"]) is True
    with refused("cancelled"):
        await task
    ended: Any = await chat.get_run(run["id"])
    assert (ended["status"], ended["last_error"]) == ("failed", "Run cancelled by user")
    assert await chat.cancel_run(run["id"]) is False
    gate.open()
    reply = await chat.send("b")
    assert await chat.cancel_run(reply.run_id) is False
    assert await chat.cancel() is False


async def test_f20_a_cancel_that_names_an_old_run_does_not_stop_the_new_one() -> None:
    gate = Gate()
    gate.open()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    old = await chat.send("a")
    gate.opened.clear()
    gate.reached.clear()
    task = asyncio.create_task(chat.send("b"))
    await gate.reached.wait()
    assert await chat.cancel(old.run_id) is False
    gate.open()
    assert (await task).text == "two"


async def test_f20_nor_does_the_mark_of_another_run_that_the_beat_finds() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    await in_db(lambda: Thread.objects.update(cancel_mark=new_id()))
    await in_db(lambda: lease.current()._look(beats=False))
    await asyncio.sleep(0)  # a stop would be on its way to this loop
    gate.open()
    assert (await task).text == "one"


async def test_b6_cancel_of_a_suspended_an_interrupted_and_a_queued_run() -> None:
    gate = Gate()

    @tool(approval="staff")
    def refund() -> str:
        return "never"

    suspended = an_agent([call("refund")], "fine", tools=[refund], name="asking").thread("suspended")
    await suspended.send("a")
    assert await suspended.cancel() is True
    assert (await suspended.send("b")).text == "fine"

    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    queued = asyncio.create_task(chat.send("b"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    assert await chat.cancel((await chat.runs())[-1]["id"]) is True
    with refused("cancelled"):
        await queued
    await die(task)
    assert await chat.cancel() is True  # f11: the dead run's end is saved by the canceller
    gate.open()
    assert (await chat.send("c")).text == "one"
    assert [run["status"] for run in await chat.runs()] == ["failed", "failed", "completed"]


async def test_f22_the_late_result_of_a_sync_tool_stays_out() -> None:
    entered, go_on, left = threading.Event(), threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        entered.set()
        go_on.wait(5)
        left.set()
        return "late"

    chat = an_agent([call("slow")], "fine", tools=[slow]).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await asyncio.to_thread(entered.wait, 5)
    assert await chat.cancel() is True
    with refused("cancelled"):
        await task
    go_on.set()
    await asyncio.to_thread(left.wait, 5)
    await chat.send("b")
    assert len(results(await chat.messages())) == 1
    assert "may have taken effect" in results(await chat.messages())[0]
    assert texts(await chat.messages())[-1] == "assistant: fine"


async def test_a_run_that_was_cancelled_while_it_saved_its_last_answer_is_complete() -> None:
    chat = an_agent("done").thread("one")
    await chat.send("a")
    assert await chat.cancel() is False
    assert (await in_db(Run.objects.get)).status == "completed"


async def test_p9_every_save_honours_the_mark_of_a_cancel_though_the_runner_has_not_heard_of_it() -> None:
    async def respond(messages: Any, tools: Any) -> str:
        await in_db(posts.cancel, "one", None, new_id())
        return "too late"

    chat = an_agent(model=ScriptedModel(respond)).thread("one")
    with refused("cancelled"):
        await chat.send("a")
    assert texts(await chat.messages()) == ["user: a"]
    assert [run["error_code"] for run in await chat.runs()] == ["cancelled"]
