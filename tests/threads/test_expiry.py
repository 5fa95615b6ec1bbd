"""Approvals that nobody answers in time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from criogen_threads.agents import tool
from criogen_threads.engine.journal import takes, workers
from criogen_threads.ids import new_id
from criogen_threads.models import ToolCall
from tests.support import an_agent, call, in_db, refused, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


def _thread(*names: str) -> Any:
    ran: list[str] = []

    @tool(approval="staff", expires_in=timedelta(hours=1))
    def hasty() -> str:
        ran.append("hasty")
        return "hasty ran"

    @tool(approval="staff")
    def patient() -> str:
        ran.append("patient")
        return "patient ran"

    chat = an_agent([call(name) for name in names], "fine", "next", tools=[hasty, patient]).thread("one")
    return chat, ran


async def _two_hours_later() -> None:
    hasty = ToolCall.objects.filter(expires_at__isnull=False)
    await in_db(hasty.update, expires_at=F("expires_at") - timedelta(hours=2))


async def test_p21_a_tool_may_set_a_limit_and_only_then_there_is_one() -> None:
    chat, _ = _thread("hasty", "patient")
    hasty, patient = (await chat.send("go")).pending
    assert patient["expires_at_ms"] is None
    assert hasty["expires_at_ms"] - hasty["created_at_ms"] == 3_600_000


async def test_retry_applies_the_expiry_and_the_run_goes_on_as_after_a_rejection() -> None:
    chat, ran = _thread("hasty")
    await chat.send("go")
    with refused("thread_suspended"):
        await chat.retry()
    await _two_hours_later()
    reply = await chat.retry()
    assert (reply.text, ran) == ("fine", [])
    assert results(reply.messages) == ["Nobody approved this call in time; it was not run."]
    assert (await in_db(ToolCall.objects.get)).status == "expired"


async def test_an_answer_after_the_expiry_does_not_count() -> None:
    chat, ran = _thread("hasty")
    [pending] = (await chat.send("go")).pending
    await _two_hours_later()
    with refused("resume_invalid"):
        await chat.decide({pending["id"]: True})
    assert ran == []


async def test_decide_on_another_call_applies_the_expiry_too() -> None:
    chat, ran = _thread("hasty", "patient")
    pending = (await chat.send("go")).pending
    await _two_hours_later()
    reply = await chat.decide({pending[1]["id"]: True})
    assert (reply.text, ran) == ("fine", ["patient"])


async def test_a_send_leaves_the_expired_run_as_failed() -> None:
    chat, ran = _thread("hasty", "patient")
    await chat.send("go")
    await _two_hours_later()
    reply = await chat.send("never mind")
    assert reply.status == "completed"
    assert ran == []
    assert [(run["status"], run["error_code"]) for run in await chat.runs()] == [
        ("failed", "approval_expired"), ("completed", ""),
    ]  # fmt: skip
    assert texts(await chat.messages())[-2:] == ["user: never mind", "assistant: fine"]
    assert not await in_db(ToolCall.objects.awaiting_approval().exists)


async def test_expiry_is_an_event_like_any_other_answer() -> None:
    chat, _ = _thread("hasty")
    await chat.send("go")
    await _two_hours_later()
    await chat.retry()
    [event] = await chat.get_events(type="approval_decided")
    assert event["details"]["approved"] is False


async def test_events_of_an_expiry_and_of_what_it_lets_go_on_are_numbered_without_gaps() -> None:
    """Where the time runs out between a first look and the take: both are one write."""
    chat, _ = _thread("hasty")
    await chat.send("go")
    await _two_hours_later()
    await in_db(workers.register, worker := new_id(), "host", 1)
    assert await in_db(lambda: takes.retry(chat.id, worker, run_id=new_id())) is not None
    events = await chat.get_events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events[-2:]] == ["approval_decided", "run_start"]
