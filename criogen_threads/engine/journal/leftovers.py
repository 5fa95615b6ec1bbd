"""What nobody works on though somebody should: the looks of the dispatcher and of ``criogen_recover``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from criogen_threads.engine.journal import families, lines
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.journal.writing import write
from criogen_threads.models import Run, Thread, ToolCall

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.statements import Session

FREE = Q(thread__status__in=(Thread.Status.IDLE, Thread.Status.FAILED))
"""Runs whose thread takes the next turn."""


def forsaken(worker: UUID) -> list[UUID]:
    """Submitted runs that could start and that nobody executes: this worker's own, and those of dead ones."""
    queued = Run.objects.using(database()).filter(FREE, status=Run.Status.QUEUED)
    return list(queued.filter(lines.orphaned() | Q(wait_until=None, waiter=worker)).values_list("pk", flat=True))


def silent() -> list[UUID]:
    """Threads in whose line stands a call that nobody waits for any more."""
    waiting = Run.objects.using(database()).filter(lines.gone(), status=Run.Status.QUEUED)
    return list(waiting.values_list("thread", flat=True).distinct())


@write
def forsake(session: Session, run_id: UUID) -> bool:
    """Nobody executes this submitted run: leave it to whoever looks for such."""
    queued = Run.objects.using(session.alias).filter(pk=run_id, status=Run.Status.QUEUED)
    return bool(queued.update(waiter=None))


def left_in_line(thread_id: UUID) -> UUID | None:
    """The submitted run that is first in line before a free thread."""
    line = lines.in_order(thread_id).using(database()).filter(FREE, wait_until=None)
    return line.values_list("pk", flat=True).first()


def due() -> list[str]:
    """Threads whose approvals are all answered and whose run nobody has taken up. A run that another one asked for
    is taken up by that."""
    for thread_id in families.unsettled():
        if first := families.top(thread_id):
            families.settle(first.pk)
    return list(Thread.objects.using(database()).due().filter(parent=None).values_list("key", flat=True))


def interrupted() -> list[str]:
    """Threads whose run is unfinished and whose process is dead."""
    threads = Thread.objects.using(database()).interrupted().filter(ephemeral=False, parent=None)
    return list(threads.values_list("key", flat=True))


def left_behind() -> list[str]:
    """Ephemeral threads whose process is dead."""
    threads = Thread.objects.using(database()).filter(ephemeral=True, parent=None)
    return list(threads.exclude(pk__in=threads.held()).values_list("key", flat=True))


def overdue() -> list[str]:
    """Threads with an approval that nobody answered in time."""
    expired = ToolCall.objects.using(database()).expired()
    return list(expired.values_list("thread__key", flat=True).distinct())
