"""Rows as the API gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import redaction
from criogen_threads.api.pagination import page
from criogen_threads.engine import reads
from criogen_threads.engine.views import milliseconds
from criogen_threads.models import Thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet
    from rest_framework.request import Request

    from criogen_threads.models import Run

INTERRUPTED = "interrupted"


def with_holder(threads: QuerySet[Thread]) -> QuerySet[Thread]:
    """Threads that know whether a living process holds them."""
    return threads.annotate(is_held=Thread.objects.holding())


def thread_view(thread: Thread, *, held: bool) -> dict[str, Any]:
    """A thread; its status says "interrupted" where the process of its run is gone."""
    interrupted = thread.status == Thread.Status.RUNNING and not held
    return {
        "key": thread.key,
        "epoch": str(thread.pk),
        "agent": thread.agent,
        "owner": None if thread.owner_id is None else str(thread.owner_id),
        "title": thread.title,
        "metadata": thread.metadata,
        "status": INTERRUPTED if interrupted else thread.status,
        "current_run": None if thread.current_run_id is None else str(thread.current_run_id),
        "version": thread.version,
        "seq": thread.event_seq,
        "pending": thread.pending,
        "tokens": thread.tokens,
        "created_at_ms": milliseconds(thread.created_at),
        "last_message_at_ms": milliseconds(thread.last_message_at),
    }


def thread_page(request: Request, thread: Thread, results: list[Any], **cursor: Any) -> dict[str, Any]:
    """A page of something of a thread, with the ``seq`` that was read before its rows."""
    return {"epoch": str(thread.pk), "seq": thread.event_seq, **page(request, results, **cursor)}


def run_views(runs: Iterable[Run], thread: Thread, to: redaction.Audience) -> list[dict[str, Any]]:
    """Runs of one thread, with the approvals that they wait for, as this audience sees them."""
    return [redaction.run({**view, "thread": thread.key}, to) for view in reads.run_views(runs)]
