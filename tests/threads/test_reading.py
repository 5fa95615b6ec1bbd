"""The rows of a thread as bedrock_swarm has them, and its statistics."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.models import Thread
from tests.support import Gate, an_agent, call, gated, in_db, refused, texts

pytestmark = pytest.mark.django_db(transaction=True)


@tool
def look(n: int) -> str:
    return f"seen {n}"


@tool(approval="owner")
def refund() -> str:
    return "refunded"


async def test_b1_a_thread_knows_its_agent_times_messages_events_and_runs() -> None:
    chat = an_agent("one").thread("one")
    reply = await chat.send("a")
    thread = await in_db(lambda: Thread.objects.select_related("current_run").get())
    assert (thread.key, thread.agent, str(thread.current_run.pk)) == ("one", "helper", reply.run_id)
    assert thread.created_at <= thread.last_message_at
    assert await in_db(lambda: [run.number for run in thread.runs.all()]) == [1]
    assert await in_db(thread.stored_messages.count) == 2
    assert await in_db(thread.events.count) == len(await chat.get_events())


async def test_b2_a_run_goes_through_its_statuses_with_their_times() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, [call("refund")], "done"), tools=[refund]).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    running: Any = await chat.get_current_run()
    assert (running["status"], running["completed_at_ms"]) == ("in_progress", None)
    assert running["started_at_ms"] >= running["created_at_ms"]
    gate.open()
    reply = await first
    waiting: Any = await chat.get_current_run()
    assert waiting["status"] == "requires_action"
    assert waiting["required_action"] == reply.pending
    await chat.approve()
    done: Any = await chat.get_current_run()
    assert (done["status"], done["required_action"], done["last_error"]) == ("completed", None, None)
    assert done["completed_at_ms"] >= done["started_at_ms"]


async def test_b2_last_error_of_a_failed_run() -> None:
    chat = an_agent(ModelError("down", passing=False)).thread("one")
    with refused("model_failed"):
        await chat.send("a")
    run: Any = await chat.get_current_run()
    assert (run["status"], run["last_error"]) == ("failed", "down")
    assert run["completed_at_ms"] is not None


async def test_b3_a_message_has_role_content_time_thread_and_metadata() -> None:
    chat = an_agent("one").thread("one")
    await chat.send([{"text": "look"}, {"image": {"url": "https://example.org/a.png"}}])
    [asked, answer] = await chat.messages()
    assert asked["content"] == [{"text": "look"}, {"image": {"url": "https://example.org/a.png"}}]
    thread = await in_db(Thread.objects.get)
    for message in (asked, answer):
        assert message["thread_id"] == str(thread.pk)
        assert message["metadata"] == {}
        assert message["created_at_ms"] > 1_600_000_000_000
    assert (asked["role"], answer["role"], answer["agent"]) == ("user", "assistant", "helper")


async def test_b4_history_context_window_and_last_message() -> None:
    chat = an_agent("one", "two", "three", "four").thread("one")
    assert await chat.get_last_message() is None
    assert await chat.get_context_window() == []
    for text in "abcd":
        await chat.send(text)
    everything = await chat.messages()
    assert await chat.get_history() == everything
    assert await chat.get_context_window() == everything[-5:]
    assert await chat.get_context_window(n=2) == everything[-2:]
    assert await chat.get_context_window(0) == []
    assert await chat.get_context_window(100) == everything
    assert await chat.get_last_message() == everything[-1]
    with refused("invalid_option"):
        await chat.get_context_window(-1)


async def test_b5_current_run_runs_and_run() -> None:
    agent = an_agent("one", "two")
    chat = agent.thread("one")
    assert await chat.get_current_run() is None
    assert await chat.runs() == []
    first, second = await chat.send("a"), await chat.send("b")
    current: Any = await chat.get_current_run()
    assert current["id"] == second.run_id
    assert [run["id"] for run in await chat.runs()] == [first.run_id, second.run_id]
    assert [run["id"] for run in await chat.runs(last=1)] == [second.run_id]
    found: Any = await chat.get_run(first.run_id)
    assert (found["id"], found["status"]) == (first.run_id, "completed")
    for unknown in (uuid4(), "no id", ""):
        assert await chat.get_run(unknown) is None
    assert await agent.thread("other").get_run(first.run_id) is None


async def test_b20_statistics() -> None:
    chat = an_agent(
        [call("look", n=1), call("look", n=2)], [call("refund"), call("unknown")], "done", tools=[look, refund]
    ).thread("one")
    assert await chat.thread_state() == {
        "message_count": 0, "last_activity_ms": None, "current_run_status": None, "tool_usage": {},
    }  # fmt: skip
    await chat.send("a")
    assert (await chat.thread_state())["current_run_status"] == "requires_action"
    await chat.approve()
    last: Any = await chat.get_last_message()
    assert await chat.thread_state() == {
        "message_count": 8,
        "last_activity_ms": last["created_at_ms"],
        "current_run_status": "completed",
        "tool_usage": {"look": 2, "refund": 1},
    }


async def test_titles_and_metadata() -> None:
    chat = an_agent("one").thread("one")
    with refused("thread_not_found"):
        await chat.describe(title="Refund")
    await chat.send("a")
    await chat.describe(title="Refund\0 of A1", metadata={"b": 1, "a": [None]})
    thread = await in_db(Thread.objects.get)
    assert (thread.title, list(thread.metadata)) == ("Refund\0 of A1", ["b", "a"])
    with refused("invalid_state"):
        await chat.describe(title="\ud800")
    with refused("invalid_state"):
        await chat.describe(metadata={"x": {1, 2}})  # type: ignore[dict-item]
    assert thread.version == 2
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]
