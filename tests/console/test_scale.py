"""The number of queries does not grow with the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from criogen_threads.ids import new_id
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from tests.console.support import Staff, clerk, customer

if TYPE_CHECKING:
    from uuid import UUID

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 1_500


def many_threads(count: int) -> None:
    """Threads with an approval each."""
    owner = customer()
    threads = [Thread(id=new_id(), key=f"t-{count}-{n}", agent="clerk", owner=owner, pending=1) for n in range(count)]
    runs = [Run(id=new_id(), thread=each, number=1, agent="clerk", actor=owner) for each in threads]
    calls = [
        ToolCall(
            id=new_id(), thread=each, run=run, message_id=new_id(), step=1, index=0, call_id="c", name="refund",
            arguments={"order": "A", "amount": 1}, status="awaiting_approval", approver="staff", arguments_digest="d",
        )
        for each, run in zip(threads, runs, strict=True)
    ]  # fmt: skip
    for model, rows in ((Thread, threads), (Run, runs), (ToolCall, calls)):
        model._base_manager.bulk_create(rows, batch_size=500)


def long_thread(key: str, count: int) -> UUID:
    """A thread with so many turns, each a checkpoint, a call and an event."""
    owner = customer()
    thread = Thread.objects.create(key=key, agent="clerk", owner=owner)
    runs, messages, points, calls, events = [], [], [], [], []
    parent: UUID | None = None
    above: UUID | None = None
    for n in range(count):
        run = Run(id=new_id(), thread=thread, number=n + 1, agent="clerk", actor=owner, status="completed")
        asked = [{"tool_call": {"id": "c", "name": "refund", "arguments": {"order": "A", "amount": n}}}]
        message = Message(
            id=new_id(), thread=thread, run_id=run.pk, role="assistant", content=asked, parent_id=parent,
            position=n + 1, agent="clerk",
        )  # fmt: skip
        point = Checkpoint(
            id=new_id(), thread=thread, run_id=run.pk, version=n + 1, status="completed", source="step",
            parent_id=above, message_id=message.pk,
        )  # fmt: skip
        call = ToolCall(
            id=new_id(), thread=thread, run=run, message=message, step=1, index=0, call_id="c", name="refund",
            arguments={"order": "A", "amount": n}, status="done", approver="staff",
        )  # fmt: skip
        event = Event(id=new_id(), thread=thread, seq=n + 1, type="tool_complete", run_id=run.pk, tool_call_id=call.pk)
        for rows, row in ((runs, run), (messages, message), (points, point), (calls, call), (events, event)):
            rows.append(row)  # type: ignore[attr-defined]
        parent, above = message.pk, point.pk
    for model, found in ((Run, runs), (Message, messages), (Checkpoint, points), (ToolCall, calls), (Event, events)):
        model._base_manager.bulk_create(found, batch_size=500)
    Thread.objects.filter(pk=thread.pk).update(head=above, version=count, event_seq=count)
    return thread.pk


def queries(person: Staff, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as caught:
        assert person.get(path).status_code == 200
    return len(caught)


LISTS = ["thread/", "thread/?q=t-", "thread/?status=idle", "approval/", "approval/?status=all", "/admin/"]


@pytest.mark.parametrize("path", LISTS)
def test_lists_cost_as_many_queries_with_thousands_of_rows(viewer: Staff, approver: Staff, path: str) -> None:
    clerk("hi")
    many_threads(3)
    few = queries(approver, path)
    many_threads(MANY)
    assert queries(approver, path) == few
    assert few < 15


@pytest.mark.parametrize("page", ["change", "live", "runs", "branches", "events", "rewind", "differences"])
def test_pages_of_a_thread_cost_as_many_queries_with_thousands_of_rows(boss: Staff, page: str) -> None:
    clerk("hi")
    counts = []
    for key, length in (("short", 60), ("long", MANY)):
        pk = long_thread(key, length)
        points = Checkpoint.objects.filter(thread=pk).order_by("version").values_list("pk", flat=True)
        first, last = points[0], points[length - 1]
        wanted = {"rewind": f"?checkpoint={first}", "differences": f"?from={first}&to={last}"}
        counts.append(queries(boss, f"thread/{pk}/{page}/{wanted.get(page, '')}"))
    assert counts[0] == counts[1]
    assert counts[0] < 25
