"""The line before a thread: queued runs, in the order in which they start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from criogen_threads import errors
from criogen_threads.engine.journal.pen import lock
from criogen_threads.engine.journal.statements import Select, bind, database
from criogen_threads.engine.journal.writing import write
from criogen_threads.models import Run, Thread, Worker

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.models.run import RunQuerySet

WAITER_SECONDS = 5
"""Seconds until a waiting call that does not show itself counts as gone."""


def in_order(thread: Any) -> RunQuerySet:
    """The queued runs of a thread, first in line first."""
    return Run.objects.queued().filter(thread=thread)


LINE = Select(
    lambda _: (
        Thread.objects.filter(pk=bind(Thread, "id"))
        .annotate(
            last=Run.objects.filter(thread=OuterRef("pk")).order_by("-number").values("number")[:1],
            first=in_order(OuterRef("pk")).values("id")[:1],
        )
        .values_list("last", "first", named=True)
    )
)


def place(session: Session, thread_id: UUID) -> tuple[int, UUID | None]:
    """The number of the next run, and the queued run that is first in line (None: nobody waits)."""
    line = session.row(LINE, id=thread_id)
    return (line.last or 0) + 1, line.first


def gone() -> Q:
    """Waiting calls that nobody waits for any more: overdue, or their process is dead."""
    return Q(Q(wait_until__lte=Now()) | ~_waiter_lives(), wait_until__isnull=False)


def orphaned() -> Q:
    """Submitted runs whose process is dead: to be dispatched again."""
    return Q(~_waiter_lives(), wait_until__isnull=True)


def _waiter_lives() -> Exists:
    return Exists(Worker.objects.filter(pk=OuterRef("waiter"), expires_at__gt=Now()))


def purge(session: Session, thread_id: UUID, but: UUID | None = None) -> None:
    """Below the lock: pass over dead waiters. What they wanted to say is not stored."""
    waiting = Run.objects.using(session.alias).filter(gone(), thread=thread_id, status=Run.Status.QUEUED)
    if but is not None:
        waiting = waiting.exclude(pk=but)
    waiting._raw_delete(session.alias)


@write
def pass_over(session: Session, thread_id: UUID) -> None:
    """``purge``, for somebody who follows a run that may have no waiter any more."""
    if lock(session, thread_id) is not None:
        purge(session, thread_id)


@write
def renew(session: Session, run_id: UUID) -> bool:
    """A waiter shows that it still waits; False when its run is not in line any more."""
    queued = Run.objects.using(session.alias).filter(pk=run_id, status=Run.Status.QUEUED)
    return bool(queued.update(wait_until=Now() + timedelta(seconds=WAITER_SECONDS)))


@write
def leave(session: Session, run_id: UUID) -> bool:
    """A waiter gives up its place; False when its run has started, or is gone."""
    queued = Run.objects.using(session.alias).filter(pk=run_id, status=Run.Status.QUEUED)
    return bool(queued._raw_delete(session.alias))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a queued run stands."""

    ahead: int  # runs that start before it
    held: bool
    due: bool
    orphan: UUID | None = None  # a submitted run that is first in line, and whose process is dead


def look(run_id: UUID) -> Place | None:
    """Where a queued run stands, read without a lock; None when it is not in line any more."""
    runs = Run.objects.using(database())
    run = runs.filter(pk=run_id, status=Run.Status.QUEUED).select_related("thread").first()
    if run is None:
        return None
    earlier = Q(urgent=run.urgent, number__lt=run.number)
    if not run.urgent:
        earlier |= Q(urgent=True)
    ahead = runs.filter(earlier, thread=run.thread_id, status=Run.Status.QUEUED).exclude(gone()).count()
    held = Thread.objects.using(database()).held().filter(pk=run.thread_id).exists()
    due = run.thread.status == Thread.Status.SUSPENDED and run.thread.pending == 0
    return Place(ahead, held, due, None if held or not ahead else _orphan(run.thread_id))


def _orphan(thread_id: UUID) -> UUID | None:
    first = in_order(thread_id).using(database()).exclude(gone()).values_list("pk", flat=True)[:1]
    return Run.objects.using(database()).filter(orphaned(), pk__in=list(first)).values_list("pk", flat=True).first()


def failure(run_id: UUID) -> errors.CriogenError | None:
    """Why a run failed; None when it did not, or is gone."""
    run = Run.objects.using(database()).filter(pk=run_id, status=Run.Status.FAILED).first()
    return errors.error_class(run.error_code)(run.error_message) if run else None
