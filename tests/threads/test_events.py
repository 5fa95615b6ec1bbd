"""Events: what happens in a thread, in order, and their chains."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from criogen_threads.agents import ToolError, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.engine.chains import format_chain
from criogen_threads.models import Event
from tests.support import an_agent, call, in_db, refused

pytestmark = pytest.mark.django_db(transaction=True)


@tool
def look(n: int) -> str:
    if n == 0:
        raise ToolError("nothing there")
    return f"seen {n}"


@tool(approval="staff")
def refund(order: str) -> str:
    return "refunded"


def _chat(*answers: Any, key: str = "one", name: str = "helper") -> Any:
    return an_agent(*answers, tools=[look, refund], name=name).thread(key)


def _kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_b11_events_are_created_on_their_own() -> None:
    chat = _chat([call("look", n=1)], [call("look", n=0)], "done")
    reply = await chat.send("Hi")
    events = await chat.get_events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["run_id"] for event in events} == {reply.run_id}
    told = [(event["type"], event["details"]) for event in events if event["type"] != "message"]
    assert told == [
        ("run_start", {}),
        ("agent_start", {"message": "Hi"}),
        ("tool_start", {"tool_name": "look", "arguments": {"n": 1}}),
        ("tool_complete", {"tool_name": "look", "arguments": {"n": 1}, "result": "seen 1"}),
        ("tool_start", {"tool_name": "look", "arguments": {"n": 0}}),
        ("tool_error", {"tool_name": "look", "arguments": {"n": 0}, "error": "nothing there"}),
        ("agent_complete", {"response": "done"}),
        ("run_complete", {}),
    ]


async def test_b11_an_error_event_says_what_went_wrong() -> None:
    chat = _chat(ModelError("down", passing=False))
    with refused("model_failed"):
        await chat.send("Hi")
    events = await chat.get_events()
    assert _kinds(events) == ["run_start", "message", "agent_start", "error"]
    assert events[-1]["details"] == {"code": "model_failed", "error": "down"}


async def test_b11_events_of_an_approval() -> None:
    chat = _chat([call("refund", order="A1")], "done")
    await chat.send("Hi")
    await chat.reject("no")
    events = [event for event in await chat.get_events() if event["type"] != "message"]
    assert _kinds(events) == [
        "run_start", "agent_start", "approval_requested", "approval_decided", "run_start", "tool_error",
        "agent_complete", "run_complete",
    ]  # fmt: skip
    asked, decided = events[2], events[3]
    assert asked["details"] == {"tool_name": "refund", "arguments": {"order": "A1"}}
    assert decided["details"] == {"tool_name": "refund", "arguments": {"order": "A1"}, "approved": False}


async def test_b11_events_refer_to_rows_and_copy_nothing() -> None:
    chat = _chat([call("look", n=1)], "done")
    await chat.send("a secret word")
    stored = await in_db(lambda: list(Event.objects.values_list("details", flat=True)))
    assert set(stored) == {None}


async def test_b12_create_event_fills_in_agent_run_and_thread() -> None:
    chat = _chat("done")
    reply = await chat.send("Hi")
    event = await chat.create_event("handed_over", {"to": "ann", "tries": [1, 2]})
    assert event["details"] == {"to": "ann", "tries": [1, 2]}
    assert (event["agent"], event["run_id"]) == ("helper", reply.run_id)
    assert (await chat.get_events())[-1] == event
    other = await chat.create_event("x", None, agent="somebody", run=reply.run_id, parent=event["id"])
    assert (other["agent"], other["parent_id"], other["details"]) == ("somebody", event["id"], {})


async def test_b12_what_cannot_be_an_event_is_refused() -> None:
    chat = _chat("done")
    with refused("thread_not_found"):
        await chat.create_event("note")
    await chat.send("Hi")
    for kind, details in (("", {}), ("no spaces", {}), ("x" * 51, {}), ("x", [1]), ("x", {"n": float("nan")})):
        with refused("invalid_event"):
            await chat.create_event(kind, details)
    for run in (uuid4(), "no id"):
        with refused("run_not_found"):
            await chat.create_event("x", run=run)
    assert "x" not in _kinds(await chat.get_events())


async def test_b13_get_events_by_run_thread_agent_and_type_all_of_them_anded() -> None:
    chat, other = _chat("one", "two", key="one"), _chat("else", key="other")
    first, second = await chat.send("a"), await chat.send("b")
    await other.send("c")
    await chat.create_event("note", agent="somebody", run=first.run_id)
    assert {event["run_id"] for event in await chat.get_events(run=first.run_id)} == {first.run_id}
    assert _kinds(await chat.get_events(type="agent_start")) == ["agent_start"] * 2
    assert _kinds(await chat.get_events(agent="somebody")) == ["note"]
    [only] = await chat.get_events(run=second.run_id, type="agent_complete", agent="helper")
    assert only["details"] == {"response": "two"}
    assert await chat.get_events(run=second.run_id, agent="somebody") == []
    assert await chat.get_events(run=uuid4()) == []
    assert await chat.get_events(run="no id") == []
    assert {event["thread_id"] for event in await chat.get_events()} != {
        event["thread_id"] for event in await other.get_events()
    }
    seqs = [event["seq"] for event in await chat.get_events()]
    assert seqs == sorted(seqs)


async def _chain(chat: Any, event: dict[str, Any]) -> list[str]:
    chain, by_id = [], {each["id"]: each for each in await chat.get_events()}
    at: Any = event
    while at is not None:
        chain.insert(0, at["type"])
        at = by_id.get(at["parent_id"])
    return chain


async def test_b14_a_second_tool_call_hangs_below_the_run_s_agent_start_like_the_first() -> None:
    chat = _chat([call("look", n=1)], [call("look", n=2)], "done")
    await chat.send("a")
    completes = await chat.get_events(type="tool_complete")
    for complete in completes:
        assert await _chain(chat, complete) == ["agent_start", "tool_start", "tool_complete"]
    [start] = await chat.get_events(type="agent_start")
    starts = await chat.get_events(type="tool_start")
    assert [event["parent_id"] for event in starts] == [start["id"]] * 2
    assert [event["parent_id"] for event in completes] == [event["id"] for event in starts]


async def test_b14_each_run_has_a_root_of_its_own() -> None:
    chat = _chat("one", "two")
    await chat.send("a")
    await chat.send("b")
    starts = await chat.get_events(type="agent_start")
    completes = await chat.get_events(type="agent_complete")
    assert [event["parent_id"] for event in starts] == [None, None]
    assert [event["parent_id"] for event in completes] == [event["id"] for event in starts]


def test_b15_the_shape_of_a_formatted_chain() -> None:
    root = {
        "type": "agent_start", "agent": "support", "created_at_ms": 1_700_000_000_007,
        "details": {"message": "Where is A1?"},
    }  # fmt: skip
    start = {
        "type": "tool_start", "agent": "support", "created_at_ms": 1_700_000_001_450,
        "details": {"tool_name": "look", "arguments": {"order": "A1", "deep": {"n": 1}}},
    }  # fmt: skip
    assert format_chain([root, start]) == (
        "[22:13:20.007] AGENT_START - Agent: support\n"
        "  message: Where is A1?\n"
        "\n"
        "[22:13:21.450] TOOL_START - Agent: support\n"
        "  tool_name: look\n"
        "  arguments:\n"
        "    order: A1\n"
        "    deep: {'n': 1}"
    )
    assert format_chain([]) == ""


async def test_b15_format_event_chain_goes_from_the_root_to_the_event() -> None:
    chat = _chat([call("look", n=1)], "done")
    await chat.send("Hi")
    [complete] = await chat.get_events(type="tool_complete")
    text = await chat.format_event_chain(complete)
    assert text == await chat.format_event_chain(complete["id"])
    paragraphs = [paragraph.splitlines() for paragraph in text.split("\n\n")]
    assert [lines[0][15:] for lines in paragraphs] == [
        "AGENT_START - Agent: helper", "TOOL_START - Agent: helper", "TOOL_COMPLETE - Agent: helper",
    ]  # fmt: skip
    assert paragraphs[2][1:] == ["  tool_name: look", "  arguments:", "    n: 1", "  result: seen 1"]


async def test_b15_an_unknown_event_gives_an_empty_text() -> None:
    chat, other = _chat("done", key="one"), _chat("done", key="other")
    await chat.send("Hi")
    await other.send("Hi")
    foreign = (await other.get_events())[0]
    for unknown in (uuid4(), "no id", foreign["id"]):
        assert await chat.format_event_chain(unknown) == ""


async def test_events_are_numbered_without_gaps_by_everybody_who_writes_them() -> None:
    chat = _chat("one", "two", "three")
    await asyncio.gather(*(chat.send(f"turn {n}") for n in range(3)), return_exceptions=False)
    await asyncio.gather(*(chat.create_event("note", {"n": n}) for n in range(5)))
    seqs = [event["seq"] for event in await chat.get_events()]
    assert seqs == list(range(1, len(seqs) + 1))
