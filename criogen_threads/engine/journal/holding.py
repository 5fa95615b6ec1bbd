"""The lock of a thread's holder: one statement, because what a save checks stands in the thread row itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import DateTimeField, Func
from django.db.models.functions import Now

from criogen_threads import errors
from criogen_threads.engine.journal.pen import OWN, Locked, locked_for, locking, reread
from criogen_threads.engine.journal.statements import Select, bind
from criogen_threads.models import Thread

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import QuerySet

    from criogen_threads.engine.journal.pen import Pen, Saved
    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.engine.journal.takes import Lease


class Head(NamedTuple):
    """What a holder knows of the head that it has moved: rows that never change, so that nobody need read them."""

    id: UUID | None
    message_id: UUID | None
    step: int | None
    status: str | None
    state_at_id: UUID | None
    run_id: UUID | None
    position: int | None


def head_of(pen: Pen) -> Head:
    """Where the conversation stands when the pen has put everything down."""
    if not pen.checkpoints:
        was = pen.locked
        return Head(
            was.head_id, was.message_id, was.step, was.head_status, was.state_at_id, was.head_run_id, was.position
        )
    now = pen.checkpoints[-1]
    return Head(now.id, now.message_id, now.step, now.status, now.state_at_id, now.run_id, pen.position)


def save(pen: Pen, lease: Lease) -> Saved:
    """Put everything down, and remember the head: below the lock, so that of two saves the later one does."""
    saved = pen.write()
    lease.head = head_of(pen)
    return saved


def _locking(connection: BaseDatabaseWrapper) -> QuerySet[Thread, Any]:
    """After a lock wait PostgreSQL reads the locked row anew, and asks the time again; nothing else is read here."""
    time = Func(function="clock_timestamp", output_field=DateTimeField())
    found = Thread.objects.filter(pk=bind(Thread, "id"))
    return locking(found.annotate(now=time if connection.vendor == "postgresql" else Now()), connection, (*OWN, "now"))


HOLD = Select(_locking)


def hold(session: Session, lease: Lease, *, heed_cancel: bool = True) -> Locked:
    """Lock the thread of a lease, and make sure that the lease is still good.

    Raises:
        LeaseLostError: ``lease_lost``: another took the thread, or it is gone.
        RunCancelledError: ``cancelled``: somebody has asked for the run to stop.
    """
    with session.pipelined():  # with the BEGIN before it
        row = session.row(HOLD, id=lease.thread_id, locked_for=locked_for())
    session.refuse_repetition()
    mine = (lease.worker, lease.fence, lease.run.id)
    if row is None or (row.holder, row.fence, row.current_run_id) != mine:
        raise errors.LeaseLostError
    if heed_cancel and row.cancel_mark == lease.run.id:
        raise errors.RunCancelledError
    if row.head_id != lease.head.id:
        return reread(session, lease.thread_id)
    standing: list[Any] = [*row[: len(OWN)], *lease.head[1:], True, row.now]  # held: by this very lease
    return Locked(*standing)
