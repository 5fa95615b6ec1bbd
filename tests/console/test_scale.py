"""The number of queries does not grow with the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test.utils import CaptureQueriesContext

from criogen_threads.admin import ApprovalAdmin, ThreadAdmin
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
    ContentType.objects.clear_cache()  # or the first page of a process would cost more than the next
    with CaptureQueriesContext(connection) as caught:
        assert person.get(path).status_code == 200
    return len(caught)


LISTS = [
    "/admin/",
    *(f"approval/?{query}" for query in ("", "status=all", "status=approved", "tool=refund", "agent=clerk", "age=hour",
                                         "by=me", "p=2")),
    *(f"thread/?{query}" for query in ("", "q=t-", "q=ann", "status=idle", "status=interrupted", "waiting=yes",
                                       "agent=clerk", "p=2")),
]  # fmt: skip


def test_the_lists_name_every_filter() -> None:
    for admin in (ThreadAdmin, ApprovalAdmin):
        for each in admin.list_filter:
            assert any(f"?{each.parameter_name}=" in path for path in LISTS), each  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", LISTS)
def test_lists_cost_as_many_queries_with_thousands_of_rows(viewer: Staff, approver: Staff, path: str) -> None:
    clerk("hi")
    many_threads(60 if "p=2" in path else 3)
    few = queries(approver, path)
    many_threads(MANY)
    assert queries(approver, path) == few
    assert few < 15


PAGES = ["change", "live", "runs", "branches", "events", "history", "rewind", "differences", "delete", "messages"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_of_a_thread_cost_as_many_queries_with_thousands_of_rows(boss: Staff, page: str) -> None:
    clerk("hi")
    counts = []
    for key, length in (("short", 60), ("long", MANY)):
        pk = long_thread(key, length)
        points = Checkpoint.objects.filter(thread=pk).order_by("version").values_list("pk", flat=True)
        first, last = points[0], points[length - 1]
        message = Message.objects.filter(thread=pk).order_by("position")[length // 2]
        address = {
            "rewind": f"rewind/?checkpoint={first}", "differences": f"differences/?from={first}&to={last}",
            "messages": f"messages/{message.pk}/",
        }  # fmt: skip
        counts.append(queries(boss, f"thread/{pk}/{address.get(page, f'{page}/')}"))
    assert counts[0] == counts[1]
    assert counts[0] < 25


@pytest.mark.parametrize("page", ["change", "live"])
def test_the_page_of_an_approval_costs_as_many_queries_in_a_long_thread(boss: Staff, page: str) -> None:
    clerk("hi")
    counts = []
    for key, length in (("short", 60), ("long", MANY)):
        call = ToolCall.objects.filter(thread=long_thread(key, length)).order_by("-pk")[0]
        counts.append(queries(boss, f"approval/{call.pk}/{page}/"))
    assert counts[0] == counts[1]
    assert counts[0] < 15
