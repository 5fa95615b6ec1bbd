"""Deleting a thread."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from tests.support import Gate, an_agent, call, die, gated, in_db, refused, texts

pytestmark = pytest.mark.django_db(transaction=True)

ROWS = (Thread, Run, Checkpoint, Message, ToolCall, Event)


@tool(approval="staff")
def refund() -> str:
    return "refunded"


def _counts() -> dict[str, int]:
    return {model.__name__: model._base_manager.count() for model in ROWS}


async def test_p37_delete_removes_everything_and_says_whether_it_existed() -> None:
    agent = an_agent("one", [call("refund")], "two", tools=[refund])
    chat, other = agent.thread("one"), agent.thread("other")
    await other.send("a")
    before = await in_db(_counts)
    await chat.send("a")
    await chat.create_event("note", {"k": "v"})
    await chat.send("b")
    await chat.rewind((await chat.history())[-1]["id"])
    assert await chat.delete() is True
    assert await in_db(_counts) == before  # f35: zero rows of it, and the neighbour's are untouched
    assert await chat.delete() is False
    assert await agent.thread("never").delete() is False


async def test_p37_the_next_send_with_the_key_starts_at_version_1_under_another_epoch() -> None:
    chat = an_agent("one", "two").thread("one")
    await chat.send("a")
    old = (await in_db(Thread.objects.get)).pk
    await chat.delete()
    assert await chat.messages() == []
    assert (await chat.send("b")).text == "one"
    assert [checkpoint["version"] for checkpoint in await chat.history()] == [2, 1]
    assert (await in_db(Thread.objects.get)).pk != old


async def test_p37_a_thread_that_waits_or_was_left_can_be_deleted() -> None:
    gate = Gate()
    suspended = an_agent([call("refund")], tools=[refund]).thread("suspended")
    await suspended.send("a")
    interrupted = an_agent(model=gated(gate, "x"), name="other").thread("interrupted")
    task = asyncio.create_task(interrupted.send("a"))
    await gate.reached.wait()
    await die(task)
    assert await suspended.delete() is True
    assert await interrupted.delete() is True
    assert set((await in_db(_counts)).values()) == {0}


async def test_delete_waits_for_a_live_run() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    with refused("thread_busy"):
        await chat.delete(timeout=0.1)
    deleting = asyncio.create_task(chat.delete())
    await asyncio.sleep(0)
    gate.open()
    assert (await task).text == "one"
    assert await deleting is True


async def test_a_run_whose_thread_was_deleted_under_it_cannot_write_any_more() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "late")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()

    def take_away() -> None:
        for model in reversed(ROWS):
            model._base_manager.all()._raw_delete("default")

    await in_db(take_away)
    gate.open()
    with refused("lease_lost"):
        await task
    assert set((await in_db(_counts)).values()) == {0}


async def test_a_send_that_waits_while_the_thread_is_deleted_starts_at_version_1() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    waiting = asyncio.create_task(chat.send("b"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)

    def drop() -> None:
        for model in reversed(ROWS):
            model._base_manager.all()._raw_delete("default")

    await in_db(drop)
    gate.open()
    with refused("lease_lost"):
        await task
    reply = await waiting
    assert texts(await chat.messages()) == ["user: b", "assistant: one"]
    assert [checkpoint["version"] for checkpoint in await chat.history()] == [2, 1]
    run: Any = await chat.run(reply.run_id)
    assert run["number"] == 1
