"""Taking a thread: to start a turn, to start a queued one, to continue an unfinished one.

Each is one short transaction below the thread's lock. Taking changes who holds the thread and what its rows
mean from now on (the preamble); the loop does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _

from criogen_threads import errors
from criogen_threads.engine.journal import limits, lines, usages
from criogen_threads.engine.journal.askers import SITE, Asker
from criogen_threads.engine.journal.forks import fork_run
from criogen_threads.engine.journal.holding import head_of
from criogen_threads.engine.journal.leaving import expire_approvals, has_expired, leave_open_calls, leave_run
from criogen_threads.engine.journal.pen import Pen, lock, lock_key
from criogen_threads.engine.journal.writing import write
from criogen_threads.models import Checkpoint, Run, Thread, ToolCall
from criogen_threads.signals import run_started

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.conversation import Conversation
    from criogen_threads.engine.journal.holding import Head
    from criogen_threads.engine.journal.pen import Locked, Saved
    from criogen_threads.engine.journal.statements import Session


@dataclass(slots=True)
class Lease:
    """The right to write one run: good until another takes the thread under a higher fence."""

    thread_id: UUID
    key: str
    worker: UUID
    fence: int
    run: Run
    state: dict[str, Any]
    saved: Saved
    head: Head  # as this holder has last moved it
    tail: UUID | None
    step: int
    ephemeral: bool = False
    conversation: Conversation | None = None  # up to the tail, where it was read in the same visit


def refuse_delegated(locked: Locked) -> None:
    """Refuse what only the thread that people speak in can be told.

    Raises:
        ThreadDelegatedError: ``thread_delegated``: an agent was asked in this one by another agent.
    """
    if locked.parent_id is not None:
        raise errors.ThreadDelegatedError


def refuse_unfinished(session: Session, locked: Locked) -> None:
    """Refuse a new turn on a thread whose last one waits for a person or never finished.

    Raises:
        ThreadInterruptedError: ``thread_interrupted``.
        ThreadSuspendedError: ``thread_suspended``, unless an approval has expired: that turn is left.
    """
    if locked.interrupted:
        raise errors.ThreadInterruptedError
    if locked.status == Thread.Status.SUSPENDED and not has_expired(session, locked):
        raise errors.ThreadSuspendedError


def start(
    pen: Pen, run: Run, checkpoint_id: UUID, worker: UUID, *, below: UUID | None = None, metadata: Any = None
) -> Lease:
    """Begin a turn on a free thread: its message, its input checkpoint and the lease, in one commit.

    Args:
        below: The event that the run hangs below: of the call that asked for it.
        metadata: Of its message.
    """
    locked = pen.locked
    if locked.status == Thread.Status.SUSPENDED:
        leave_run(pen, errors.ApprovalExpiredError)
    if locked.head_status not in (None, Checkpoint.Status.COMPLETED):
        leave_open_calls(pen)
    state = {**locked.state, **run.state} if run.state else None
    message = pen.message("user", run.input, run_id=run.id, agent=run.agent, metadata=metadata)
    pen.checkpoint("input", "in_progress", id=checkpoint_id, run_id=run.id, step=0, state=state)
    pen.event("run_start", run, parent=below)
    pen.event("message", run, parent=run.id, message_id=message.id)
    pen.event("agent_start", run, id=run.id, parent=below, message_id=message.id)  # the others hang below it
    if state is not None:
        pen.thread(state=state)
    return take(pen, run, worker, locked.state if state is None else state, step=0)


def take(pen: Pen, run: Run, worker: UUID, state: dict[str, Any], step: int) -> Lease:
    """Name the holder, and put everything down."""
    locked = pen.locked
    fence = locked.fence + 1
    pen.thread(status=Thread.Status.RUNNING, holder=worker, fence=fence, cancel_mark=None, current_run=run.id)
    pen.tell(run_started, run_id=run.id, agent=run.agent, attempt=run.attempt)
    saved = pen.write()
    return Lease(
        locked.id, locked.key, worker, fence, run, state, saved, head_of(pen), pen.tail, step, locked.ephemeral
    )  # fmt: skip


@write
def start_queued(session: Session, run_id: UUID, checkpoint_id: UUID, worker: UUID) -> Lease | None:
    """Start a queued run if it is first in line and the thread is free; None while it is not.

    Raises:
        RunNotFoundError: ``run_not_found``: it is not in line any more.
        ThreadInterruptedError, ThreadSuspendedError: Somebody has to see to the thread first.
    """
    stored = Run.objects.using(session.alias).filter(pk=run_id)
    thread_id = stored.values_list("thread", flat=True).first()  # whatever it has become: this may be a repetition
    locked = lock(session, thread_id) if thread_id else None
    run = stored.filter(status=Run.Status.QUEUED).first()
    if run is None or locked is None:
        raise errors.RunNotFoundError
    lines.purge(session, locked.id, but=run_id)
    if locked.held or locked.due or lines.place(session, locked.id)[1] != run_id:
        return None
    refuse_unfinished(session, locked)
    return start(_opened(session, locked, run), run, checkpoint_id, worker)


def _opened(session: Session, locked: Locked, run: Run) -> Pen:
    """A pen that takes a stored run to in progress."""
    if run.status != Run.Status.IN_PROGRESS:
        Run.check_transition(run.status, Run.Status.IN_PROGRESS)
    run.status = Run.Status.IN_PROGRESS
    run.started_at = run.started_at or locked.now
    run.waiter = run.wait_until = run.completed_at = None
    run.error_code = run.error_message = ""
    columns = (
        "status", "started_at", "waiter", "wait_until", "completed_at", "error_code", "error_message", "attempt",
        "first_step", "first_tokens",
    )  # fmt: skip
    pen = Pen(session, locked)
    pen.update(Run, run.id, **{name: getattr(run, name) for name in columns})
    return pen


@write
def retry(session: Session, key: str, worker: UUID, *, run_id: UUID, asker: Asker = SITE) -> Lease | None:
    """Take a thread to continue its failed, interrupted or fully answered run; None while somebody holds it.

    Args:
        run_id: The id of the new run, should this thread stand at a fork.

    Raises:
        ResumeInvalidError: ``resume_invalid``: there is nothing to retry.
        ThreadSuspendedError: ``thread_suspended``: an approval still waits.
        TooManyRunsError: ``too_many_runs``.
    """
    locked = answerable(session, key)
    if locked.held:
        return None
    pen, run = reopen(session, locked, run_id, asker)
    return take(pen, run, worker, locked.state, locked.step or 0)


@write
def resume(session: Session, key: str, worker: UUID, run_id: UUID | None = None) -> Lease | None:
    """Take a thread to continue its fully answered run, and nothing else; None while somebody holds it.

    Args:
        run_id: Only if it is this one.

    Raises:
        ResumeInvalidError: ``resume_invalid``: no such run waits to be taken up.
    """
    locked = answerable(session, key)
    if locked.held:
        return None
    run = session.find(Run, locked.current_run_id) if locked.due else None
    if run is None or run_id not in (None, run.id):
        raise errors.ResumeInvalidError(_("no answered approval waits to be taken up"))
    return take(continued(session, locked, run), run, worker, locked.state, locked.step or 0)


def answerable(session: Session, key: str) -> Locked:
    """The thread, locked, its overdue approvals expired.

    Raises:
        ResumeInvalidError: ``resume_invalid``: no run has begun in it.
        ThreadDelegatedError: ``thread_delegated``.
    """
    locked = lock_key(session, key)
    if locked is None or locked.head_id is None:
        raise errors.ResumeInvalidError(_("this thread has no run yet"))
    refuse_delegated(locked)
    if not locked.held:
        expire_approvals(session, locked)
    return locked


def reopen(session: Session, locked: Locked, run_id: UUID, asker: Asker) -> tuple[Pen, Run]:
    """What ``retry`` continues, in progress again: the current run, or at a fork a new one.

    Raises:
        As ``retry``.
    """
    if locked.status == Thread.Status.SUSPENDED and locked.pending:
        raise errors.ThreadSuspendedError
    limits.refuse_too_many(session, asker)
    if locked.current_run_id is None:
        return _fork(session, locked, run_id, asker)
    run = session.find(Run, locked.current_run_id)
    if run is None or run.status == Run.Status.COMPLETED:
        raise errors.ResumeInvalidError(_("the last run is complete"))
    return continued(session, locked, run), run


def continued(session: Session, locked: Locked, run: Run) -> Pen:
    """The current run in progress again. A call that had started has an unknown outcome from now on."""
    accepted = run.status == Run.Status.IN_PROGRESS and run.waiter is not None  # its attempt is counted already
    if not (locked.due or accepted):
        run.attempt += 1
        run.first_step = locked.step or 0
        run.first_tokens = run.tokens + usages.tokens_below(session.alias, run.id)
    pen = _opened(session, locked, run)
    running = ToolCall.objects.using(session.alias).filter(thread=locked.id, run=run.id, status="running")
    running.update(status=ToolCall.Status.UNKNOWN)
    if not accepted:
        pen.event("run_start", run, parent=run.id, details={"attempt": run.attempt})
    return pen


def _fork(session: Session, locked: Locked, run_id: UUID, asker: Asker) -> tuple[Pen, Run]:
    """Go on from a rewound checkpoint in the middle of a run: a new run, which names the old one."""
    origin = session.find(Run, locked.head_run_id)
    if origin is None or locked.head_status == Checkpoint.Status.COMPLETED:
        raise errors.ResumeInvalidError(_("the conversation is complete at this checkpoint"))
    pen = Pen(session, locked)
    run = fork_run(
        pen,
        origin,
        run_id,
        status=Run.Status.IN_PROGRESS,
        step=locked.step or 0,
        message_id=locked.message_id,
        asker=asker,
    )
    return pen, run
