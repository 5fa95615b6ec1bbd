"""Runs that ask each other, as one picture: who asked whom, how long it took, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from criogen_threads.engine.journal import usages
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.views import approval_view, milliseconds
from criogen_threads.models import Run, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Link:
    """A run of a chain, and the call of the run above it that asked for it."""

    run: Run
    call: ToolCall | None = None


def chains(runs: Iterable[Run]) -> dict[UUID, list[Link]]:
    """Of each run those that asked for it, the first one first, and itself; a few queries for each level of asking.

    A run whose callers are being deleted is alone.
    """
    found = {run.pk: [Link(run)] for run in runs}
    rising = dict(found)
    while rising := {pk: links for pk, links in rising.items() if links[0].run.parent_run_id}:
        above = _above({links[0].run.pk: links[0].run for links in rising.values()})
        for pk, links in list(rising.items()):
            caller, call = above.get(links[0].run.pk, (None, None))
            if caller is not None:
                links[:1] = [Link(caller), Link(links[0].run, call)]
            else:
                del links[:-1], rising[pk]
    return found


def _above(asked: Mapping[UUID, Run]) -> dict[UUID, tuple[Run, ToolCall | None]]:
    """The caller of each of these runs, with the call that asked for it."""
    alias, ids = database(), {run.parent_run_id for run in asked.values()}
    callers = Run.objects.using(alias).select_related("thread").in_bulk(list(ids))
    threads = {run.thread_id for run in callers.values()}
    calls = ToolCall.objects.using(alias).filter(thread__in=threads, run__in=ids, child_run__in=asked)
    by_child = {call.child_run_id: call for call in calls.select_related("message")}
    return {
        pk: (callers[run.parent_run_id], by_child.get(pk))
        for pk, run in asked.items()
        if run.parent_run_id in callers
    }  # fmt: skip


def link_view(link: Link) -> dict[str, Any]:
    """``run_id``, ``agent``, ``thread`` (its key), ``call_id`` (the call that asked for it; None for the first)."""
    run, call = link.run, link.call
    return {
        "run_id": str(run.pk), "agent": run.agent, "thread": run.thread.key, "call_id": str(call.pk) if call else None,
    }  # fmt: skip


def callers(run: Run) -> list[dict[str, Any]]:
    """The runs that asked for a run, the first one first, and itself: see ``link_view``."""
    return [link_view(link) for link in chains([run])[run.pk]]


def approval_views(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """Calls that wait for people, each with the ``chain`` of runs that asked each other down to it; empty where it is
    of the run that people speak with."""
    calls = list(calls)
    found = chains([call.run for call in calls])
    return [approval_view(call, call.agent, chain_view(found[call.run_id])) for call in calls]


def chain_view(links: Sequence[Link]) -> list[dict[str, Any]]:
    """The ``chain`` of an approval."""
    return [link_view(link) for link in links] if len(links) > 1 else []


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
    found = ToolCall.objects.using(alias).filter(thread__in=threads, run__in=ids).select_related("message", "run")
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
                "agent": call.agent,
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
