"""Checkpoints: the history, and what a rewind makes of it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread
from tests.support import Heard, an_agent, call, in_db, refused, texts

pytestmark = pytest.mark.django_db(transaction=True)

FIELDS = {"id", "version", "status", "source", "step", "run_id", "parent_id", "created_at_ms"}


@tool
def look(n: int) -> str:
    return f"seen {n}"


@tool(approval="staff")
def refund() -> str:
    return "refunded"


async def _every_kind() -> Any:
    """A thread with a completed, a failed and a suspended run, and a fork."""
    answers = ["one", ModelError("down", passing=False)]
    chat = an_agent(*answers).thread("one")
    await chat.send("a")
    with refused("model_failed"):
        await chat.send("b")
    chat = an_agent("one", [call("refund")], tools=[refund]).thread("one")
    await chat.send("c")
    await chat.rewind((await chat.history())[-1]["id"])
    return chat


async def test_p25_messages_have_role_and_content_blocks_in_the_format_of_the_reply() -> None:
    chat = an_agent([{"text": "Let me see."}, call("look", n=1)], "done", tools=[look]).thread("one")
    reply = await chat.send("a")
    messages = await chat.messages()
    assert messages == reply.messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["content"] == [
        {"text": "Let me see."}, {"tool_call": {"id": "call-1", "arguments": {"n": 1}, "name": "look"}},
    ]  # fmt: skip
    assert messages[2]["content"] == [
        {"tool_result": {"id": "call-1", "name": "look", "content": "seen 1", "is_error": False}}
    ]


async def test_p26_history_is_newest_first_and_limited_to_20() -> None:
    chat = an_agent(*[[call("look", n=n)] for n in range(12)], "done", tools=[look]).thread("one")
    await chat.send("a")
    versions = [checkpoint["version"] for checkpoint in await chat.history()]
    assert versions == list(range(26, 6, -1))
    assert [checkpoint["version"] for checkpoint in await chat.history(limit=3)] == [26, 25, 24]
    assert len(await chat.history(limit=100)) == 26
    assert await chat.history(limit=0) == []
    with refused("invalid_option"):
        await chat.history(limit=-1)


async def test_p27_each_checkpoint_has_the_promised_fields() -> None:
    chat = await _every_kind()
    for checkpoint in await chat.history():
        assert set(checkpoint) == FIELDS


async def test_p28_p29_status_and_source_are_of_the_promised_kinds() -> None:
    await _every_kind()
    rows = await in_db(lambda: list(Checkpoint.objects.order_by("version").values_list("status", "source")))
    assert rows == [
        ("in_progress", "input"), ("completed", "step"),
        ("in_progress", "input"), ("failed", "failure"),
        ("in_progress", "input"), ("in_progress", "step"), ("suspended", "suspend"),
        ("in_progress", "fork"),
    ]  # fmt: skip


async def test_p30_version_grows_by_one_with_every_checkpoint() -> None:
    await _every_kind()
    versions = await in_db(lambda: list(Checkpoint.objects.order_by("pk").values_list("version", flat=True)))
    assert versions == list(range(1, 9))
    assert (await in_db(Thread.objects.get)).version == 8


async def test_p31_created_at_ms_is_milliseconds_since_1970() -> None:
    before = time.time() * 1000
    chat = an_agent("one").thread("one")
    await chat.send("a")
    for checkpoint in await chat.history():
        assert isinstance(checkpoint["created_at_ms"], int)
        assert before - 2000 < checkpoint["created_at_ms"] < time.time() * 1000 + 2000


def _as_if_the_clock_had_run_backwards() -> None:
    for model in (Run, Message, Checkpoint, Event):
        for days, row in enumerate(model._base_manager.order_by("pk")):
            earlier = datetime(2100, 1, 1, tzinfo=UTC) - timedelta(days=days)
            model._base_manager.filter(pk=row.pk).update(created_at=earlier)


async def test_f33_order_is_by_version_whatever_the_clock_said() -> None:
    """And by number, position and seq, wherever rows are read in an order."""
    chat = an_agent("one", "two", "three").thread("one")
    await chat.send("a")
    await chat.send("b")
    await in_db(_as_if_the_clock_had_run_backwards)
    assert [checkpoint["version"] for checkpoint in await chat.history()] == [4, 3, 2, 1]
    assert texts(await chat.messages()) == ["user: a", "assistant: one", "user: b", "assistant: two"]
    assert texts(await chat.get_context_window(2)) == ["user: b", "assistant: two"]
    assert [run["number"] for run in await chat.runs()] == [1, 2]
    assert [run["number"] for run in await chat.runs(last=1)] == [2]
    events = await chat.get_events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (await chat.send("c")).text == "three"
    assert [(run["number"], run["status"]) for run in await chat.runs()] == [(n, "completed") for n in (1, 2, 3)]


async def test_p33_rewind_writes_a_new_head_that_copies_the_older_checkpoint() -> None:
    chat = an_agent("one", "two").thread("one")
    await chat.send("a")
    target = (await chat.history())[0]
    await chat.send("b")
    head = await chat.rewind(target["id"])
    assert set(head) == FIELDS
    assert (head["source"], head["version"], head["parent_id"]) == ("fork", 5, target["id"])
    assert (head["status"], head["step"], head["run_id"]) == (target["status"], target["step"], target["run_id"])
    assert [checkpoint["version"] for checkpoint in await chat.history()] == [5, 2, 1]
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]


async def test_p34_the_next_send_continues_from_there() -> None:
    model = Heard("one", "two", "three")
    chat = an_agent(model=model).thread("one")
    await chat.send("a")
    target = (await chat.history())[0]["id"]
    await chat.send("b")
    await chat.rewind(target)
    assert (await chat.send("c")).text == "two"
    assert texts(model.given[-1]) == ["user: a", "assistant: one", "user: c"]
    assert texts(await chat.messages()) == ["user: a", "assistant: one", "user: c", "assistant: two"]


async def test_p34_the_next_retry_continues_from_there() -> None:
    chat = an_agent("one", "two").thread("one")
    first = await chat.send("a")
    target = (await chat.history())[1]
    assert target["source"] == "input"
    await chat.rewind(target["id"])
    reply = await chat.retry()
    assert reply.text == "one"
    run = await chat.run(reply.run_id)
    assert run is not None
    assert (run["forked_from"], run["number"]) == (first.run_id, 2)
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]


async def test_p35_newer_checkpoints_stay_in_storage_and_nothing_is_overwritten() -> None:
    chat = an_agent("one", "two", "three").thread("one")
    await chat.send("a")
    target = (await chat.history())[0]["id"]
    await chat.send("b")
    before = await in_db(lambda: list(Checkpoint.objects.order_by("version").values()))
    newest = (await chat.history())[0]["id"]
    await chat.rewind(target)
    await chat.send("c")
    after = await in_db(lambda: list(Checkpoint.objects.order_by("version").values()))
    assert after[: len(before)] == before
    assert newest not in [checkpoint["id"] for checkpoint in await chat.history()]
    await chat.rewind(newest)  # and back to what was left
    assert texts(await chat.messages()) == ["user: a", "assistant: one", "user: b", "assistant: two"]


@pytest.mark.parametrize("wanted", [UUID(int=7), "no id", "", None, 5])
async def test_p36_an_unknown_checkpoint_is_checkpoint_not_found(wanted: Any) -> None:
    chat = an_agent("one").thread("one")
    with refused("checkpoint_not_found"):
        await chat.rewind(wanted)
    await chat.send("a")
    with refused("checkpoint_not_found"):
        await chat.rewind(wanted)
    assert (await in_db(Thread.objects.get)).version == 2


async def test_p36_a_checkpoint_of_another_thread_is_not_found() -> None:
    agent = an_agent("one")
    await agent.thread("other").send("a")
    await agent.thread("one").send("a")
    with refused("checkpoint_not_found"):
        await agent.thread("one").rewind((await agent.thread("other").history())[0]["id"])
