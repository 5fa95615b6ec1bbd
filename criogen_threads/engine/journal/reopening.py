"""A retry that is accepted now and run by the dispatcher: reopened in one commit, taken up in another."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from criogen_threads import errors
from criogen_threads.engine.journal import takes
from criogen_threads.engine.journal.askers import SITE, Asker
from criogen_threads.engine.journal.pen import lock
from criogen_threads.engine.journal.writing import write
from criogen_threads.models import Run, Thread

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Locked
    from criogen_threads.engine.journal.statements import Session

ACCEPTED_SECONDS = 30
"""Seconds that an accepted retry may wait to be taken up before another one is accepted."""


@write
def accept_retry(session: Session, key: str, worker: UUID, *, run_id: UUID, asker: Asker = SITE) -> Run:
    """Reopen the run that a retry continues, and leave it to the dispatcher.

    From here on it is in progress and held by nobody: should no process take it up, it is an interrupted run.

    Args:
        worker: This process, which has accepted it.
        run_id: The id of the new run, should this thread stand at a fork.

    Raises:
        ThreadBusyError: ``thread_busy``: the run is live, or another retry of it was accepted.
        ResumeInvalidError: ``resume_invalid``: there is nothing to retry.
        ThreadSuspendedError: ``thread_suspended``: an approval still waits.
        TooManyRunsError: ``too_many_runs``.
    """
    locked = takes.answerable(session, key)
    if locked.held or _was_just_accepted(session, locked):
        raise errors.ThreadBusyError
    pen, run = takes.reopen(session, locked, run_id, asker)
    pen.thread(status=Thread.Status.RUNNING, holder=None, cancel_mark=None, current_run=run.id)
    pen.update(Run, run.id, waiter=worker, wait_until=locked.now + timedelta(seconds=ACCEPTED_SECONDS))
    pen.write()
    return run


@write
def take_accepted(session: Session, run_id: UUID, worker: UUID) -> takes.Lease | None:
    """Take the thread of an accepted retry; None where it is done, cancelled or in other hands already."""
    run = session.find(Run, run_id, status=Run.Status.IN_PROGRESS, waiter__isnull=False)
    locked = lock(session, run.thread_id) if run else None
    run = session.find(Run, run_id, status=Run.Status.IN_PROGRESS, waiter__isnull=False)  # as it is below the lock
    if run is None or locked is None or not locked.interrupted or locked.current_run_id != run.id:
        return None
    pen = takes.continued(session, locked, run)
    return takes.take(pen, run, worker, locked.state, locked.step or 0)


def _was_just_accepted(session: Session, locked: Locked) -> bool:
    run = session.find(Run, locked.current_run_id, waiter__isnull=False) if locked.interrupted else None
    return run is not None and run.wait_until is not None and run.wait_until > locked.now
