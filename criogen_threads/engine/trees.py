"""Runs that ask each other, as one picture: who asked whom, how long it took, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads.engine.journal import usages
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.views import milliseconds
from criogen_threads.models import Run, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID


def callers(run: Run) -> list[dict[str, Any]]:
    """The runs that asked for a run, the first one first, and itself: ``run_id``, ``agent``, ``thread`` (its key),
    ``call_id`` (the call that asked for it; None for the first)."""
    runs, calls = Run.objects.using(database()).select_related("thread"), ToolCall.objects.using(database())
    found: list[dict[str, Any]] = []
    step = runs.filter(pk=run.pk).first()
    while step is not None:
        above = runs.filter(pk__in=[step.parent_run_id]).first()
        call = calls.filter(thread=above.thread_id, run=above.pk, child_run=step.pk).first() if above else None
        link = {"run_id": step.pk, "agent": step.agent, "thread": step.thread.key, "call_id": call.pk if call else None}
        found.insert(0, {name: None if value is None else str(value) for name, value in link.items()})
        step = above
    return found


def tree(run: Run) -> dict[str, Any]:
    """A run with its tool calls in order, each with the tree of the run that it asked for.

    A run has ``run_id``, ``agent``, ``thread``, ``status``, ``attempt``, ``error_code``, ``usage`` (with the runs below
    it), ``started_at_ms``, ``completed_at_ms``, ``duration_ms`` and ``calls``; a call ``id``, ``tool_name``, ``agent``,
    ``status``, ``started_at_ms``, ``duration_ms`` and ``run``. What has not ended has no duration.
    """
    alias = database()
    ids = [run.pk, *(below.pk for _, below in usages.below(alias, [run.pk]))]
    runs: dict[UUID | None, Run] = {
        each.pk: each for each in Run.objects.using(alias).filter(pk__in=ids).select_related("thread")
    }
    calls: dict[UUID, list[ToolCall]] = {}
    threads = {each.thread_id for each in runs.values()}
    found = ToolCall.objects.using(alias).filter(thread__in=threads, run__in=ids).select_related("message")
    for call in found.order_by("step", "index", "try_number"):
        calls.setdefault(call.run_id, []).append(call)
    return _run(run.pk, runs, calls, usages.totals(alias, runs.values()))


def _run(
    pk: UUID, runs: Mapping[UUID | None, Run], calls: Mapping[UUID, Iterable[ToolCall]], usage: Mapping[UUID, Any]
) -> dict[str, Any]:
    run = runs[pk]
    return {
        "run_id": str(pk),
        "agent": run.agent,
        "thread": run.thread.key,
        "status": run.status,
        "attempt": run.attempt,
        "error_code": run.error_code,
        "usage": usage[pk],
        **_times(run.started_at, run.completed_at, "completed_at_ms"),
        "calls": [
            {
                "id": str(call.pk),
                "tool_name": call.name,
                "agent": call.message.agent,
                "status": call.status,
                **_times(call.started_at, call.finished_at, "finished_at_ms"),
                "run": _run(runs[call.child_run_id].pk, runs, calls, usage) if call.child_run_id in runs else None,
            }
            for call in calls.get(pk, ())
        ],
    }


def _times(start: datetime | None, end: datetime | None, ended: str) -> dict[str, int | None]:
    took = None if start is None or end is None else round((end - start).total_seconds() * 1000)
    return {"started_at_ms": milliseconds(start), ended: milliseconds(end), "duration_ms": took}
