"""Posts: what anyone with the right to it may write. Thread lock only: no checkpoint, no version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _

from criogen_threads import errors, payload
from criogen_threads.engine.journal import callers, visiting
from criogen_threads.engine.journal.calls import note_call
from criogen_threads.engine.journal.leaving import expire_approvals, fail_run
from criogen_threads.engine.journal.locks import family, lock_all
from criogen_threads.engine.journal.pen import Pen, lock, lock_key
from criogen_threads.engine.journal.saves import append_failure
from criogen_threads.engine.journal.takes import refuse_delegated
from criogen_threads.engine.journal.writing import write
from criogen_threads.ids import new_id
from criogen_threads.models import Event, Run, Thread, ToolCall
from criogen_threads.signals import approval_decided

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from criogen_threads.engine.journal.askers import Asker
    from criogen_threads.engine.journal.pen import Locked
    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.models.tool_call import ToolCallQuerySet


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer to one approval.

    ``digest`` is that of the arguments that the person was shown; "" when the caller did not say.
    """

    approve: bool
    reason: str = ""
    arguments: dict[str, Any] | None = None
    digest: str = ""


@write
def expire(session: Session, key: str) -> None:
    """Apply the expiry of a thread's approvals."""
    first = Thread.objects.using(session.alias).filter(key=key).values_list("pk", flat=True).first()
    locks = lock_all(session, {first, *callers.above(session.alias, [first])}) if first else {}
    locked = locks.pop(first, None) if first else None
    if locked is None:
        return
    before = locked.pending
    expire_approvals(session, locked)
    run = session.find(Run, locked.current_run_id) if locked.pending < before else None
    if run is not None:
        pens = {thread_id: Pen(session, each) for thread_id, each in locks.items()}
        callers.tell(session, pens, run)
        _write(pens)


@write
def decide(
    session: Session, key: str, decisions: Mapping[UUID, Decision], asker: Asker, version: int | None = None,
    *, everything: bool = False,
) -> None:  # fmt: skip
    """Put answers on record, all of them or none, in a thread and in those of the agents that were asked below it.
    The run goes on when the last approval is answered.

    Args:
        version: That of the thread which the person was shown; None when the caller did not say.
        everything: The person named no call: these are all that wait.

    Raises:
        ResumeInvalidError: ``resume_invalid``, with ``decided_by`` and ``decided_at`` of an earlier answer.
    """
    calls = ToolCall.objects.using(session.alias).filter(pk__in=decisions)
    home, below, locks = _lock_threads_of(session, key, calls)
    if home is None or not decisions:
        raise errors.ResumeInvalidError(_("no approval waits here"))
    _refuse_unseen(home, below, everything and version is not None)
    found = {call.pk: call for call in calls.filter(thread__in=below).select_related("decided_by", "run")}
    pens = {thread_id: Pen(session, locked) for thread_id, locked in locks.items()}
    for call_id, decision in decisions.items():
        call = found.get(call_id)
        if call is None:
            raise errors.ResumeInvalidError(_("no such approval waits here"), call=str(call_id))
        pen = pens[call.thread_id]
        if call.run_id != pen.locked.current_run_id:
            raise _closed(call)
        if _accept(call, decision, asker.user_id):
            if version not in (None, home.version):
                raise errors.ResumeInvalidError(_("the thread has moved on since it was shown"), version=home.version)
            _record(pen, call.run, call, decision, asker)
    for run in {call.run_id: call.run for call in found.values() if pens[call.thread_id].updates}.values():
        callers.tell(session, pens, run, decisions)
    _write(pens)


def _write(pens: Mapping[UUID, Pen]) -> None:
    for pen in pens.values():
        if pen.updates or pen.saved.events:
            pen.write()


def _lock_threads_of(
    session: Session, key: str, calls: ToolCallQuerySet
) -> tuple[Locked | None, set[UUID], dict[UUID, Locked]]:
    """The thread; it and those of its family that these calls belong to; these and those above them, locked."""
    first = Thread.objects.using(session.alias).filter(key=key).values_list("pk", flat=True).first()
    if first is None:
        return None, set(), {}
    others = set(calls.exclude(thread=first).values_list("thread", flat=True))
    related = others & set(family(session.alias, first)) if others else set()
    below = {first, *related}
    locks = lock_all(session, below | callers.above(session.alias, below))
    return locks.get(first), below & locks.keys(), locks


def _refuse_unseen(home: Locked, below: set[UUID], by_version: bool) -> None:
    """While agents work, others beside them come to wait, and the version of the thread stays the same."""
    if by_version and home.status == Thread.Status.RUNNING and len(below) > 1:
        raise errors.ResumeInvalidError(_("agents are at work here: answer each approval by itself"))


def _accept(call: ToolCall, decision: Decision, actor_id: Any) -> bool:
    """Whether the answer is to be written; False when the very same one by the same person is there already."""
    if call.status == ToolCall.Status.AWAITING_APPROVAL:
        if decision.digest and decision.digest != call.arguments_digest:
            raise errors.ResumeInvalidError(_("the arguments are not those that were shown"), call=str(call.pk))
        return True
    same = (call.approved, call.decided_by_id, call.edited_arguments, call.reason)
    if same == (decision.approve, actor_id, decision.arguments, decision.reason):
        return False
    raise _closed(call)


def _closed(call: ToolCall) -> errors.ResumeInvalidError:
    """Nobody can answer this call any more; who did, and when."""
    by = call.decided_by.get_username() if call.decided_by else None
    at = call.decided_at.isoformat() if call.decided_at else None
    return errors.ResumeInvalidError(
        _("this approval is closed"),
        call=str(call.pk), status=call.status, decided_by=by, decided_at=at,
    )  # fmt: skip


def _record(pen: Pen, run: Run, call: ToolCall, decision: Decision, asker: Asker) -> None:
    locked = pen.locked
    status = ToolCall.Status.READY if decision.approve else ToolCall.Status.REJECTED
    pen.update(
        ToolCall, call.pk, status=status, approved=decision.approve, decided_by=asker.user_id, decided_at=locked.now,
        reason=decision.reason, edited_arguments=decision.arguments,
    )  # fmt: skip
    details = {"approved": decision.approve, **asker.named("decided_by")}
    note_call(pen, "approval_decided", call, run, details=details)
    locked.pending -= 1
    pen.thread(pending=locked.pending)
    pen.tell(
        approval_decided, run_id=run.id, call_id=call.pk, tool=call.name, approved=decision.approve,
        decided_by=asker.user_id,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cancelled:
    """``live``: a process, the worker ``holder``, was asked to stop the run, and saves its end itself."""

    run_id: UUID
    live: bool
    holder: UUID | None = None


@write
def cancel(session: Session, key: str, run_id: UUID | None, checkpoint_id: UUID) -> Cancelled | None:
    """Stop a run: mark it where a process works on it, else save its end here and now.

    Args:
        run_id: Exactly this run; None for the one that is under way.

    Returns:
        None when there is nothing to stop.
    """
    locked = lock_key(session, key)
    if locked is None:
        return None
    run = session.find(Run, run_id or locked.current_run_id, thread=locked.id)
    if run is None or run.status in (Run.Status.COMPLETED, Run.Status.FAILED):
        return None
    pen = Pen(session, locked)
    live = locked.held and run.status == Run.Status.IN_PROGRESS
    if live:
        pen.thread(cancel_mark=run.id)
    elif run.status == Run.Status.QUEUED:
        fail_run(pen, run, errors.RunCancelledError(), waiter=None, wait_until=None)
    else:
        append_failure(pen, run, errors.RunCancelledError(), checkpoint_id)
    pen.write()
    return Cancelled(run.id, live, locked.holder)


@write
def interrupt(session: Session, run_id: UUID) -> None:
    """Ask the run that is under way to stop, for a queued run that came later and will not wait for it."""
    run = session.find(Run, run_id, status=Run.Status.QUEUED)
    locked = lock(session, run.thread_id) if run else None
    if run is None or locked is None or not locked.held:
        return
    if session.find(Run, locked.current_run_id, number__lt=run.number):
        session.update(Thread, locked.id, cancel_mark=locked.current_run_id)


@write
def create_event(
    session: Session,
    key: str,
    kind: str,
    details: Any,
    run_id: UUID | None = None,
    agent: str | None = None,
    parent: UUID | None = None,
) -> Event:
    """Note an event of the site's own; agent and run are filled in where they are left out.

    Raises:
        ThreadNotFoundError: ``thread_not_found``.
        RunNotFoundError: ``run_not_found``.
    """
    locked = lock_key(session, key)
    if locked is None:
        raise errors.ThreadNotFoundError
    run = session.find(Run, run_id or locked.current_run_id, thread=locked.id)
    if run_id and run is None:
        raise errors.RunNotFoundError
    if parent and session.find(Event, parent, thread=locked.id) is None:
        raise errors.InvalidEventError("there is no such parent")
    pen = Pen(session, locked)
    agent = agent or (run.agent if run else locked.agent)
    event = pen.event(kind, run, parent=parent, agent=agent, details=details)
    pen.write()
    return event


@write
def create(session: Session, key: str, agent: str, asker: Asker, columns: Mapping[str, Any]) -> bool:
    """Make a thread in which nothing was said yet.

    Args:
        columns: Its title and its metadata, where they are given.

    Returns:
        False where this owner has it already; nothing is changed then.

    Raises:
        ThreadNotFoundError: ``thread_not_found``: another user has it; to this one it does not exist.
        TooManyThreadsError: ``too_many_threads``: a visitor's address has begun as many as it may.
        InvalidStateError: ``invalid_state``: they cannot be stored.
    """
    _check_columns(columns)
    thread = Thread(
        id=new_id(), key=key, agent=agent, owner_id=asker.user_id, visitor=asker.visitor, **columns
    )  # fmt: skip
    session.insert([thread], ignore_conflicts=True)
    locked = lock_key(session, key)
    if locked is None or not asker.has(locked):
        raise errors.ThreadNotFoundError
    made = locked.id == thread.pk
    if made and asker.visitor:
        visiting.refuse_beginning(session, asker, locked.now)
    return made


def _check_columns(columns: Mapping[str, Any]) -> None:
    for name, value in columns.items():
        try:
            payload.check(value, name)
        except payload.NotStorable as problem:
            raise errors.InvalidStateError(str(problem)) from None


@write
def describe(session: Session, key: str, columns: Mapping[str, Any], agent: str | None = None) -> None:
    """Set the title, the metadata, or the agent that the thread goes on with from the next turn on.

    Raises:
        ThreadNotFoundError: ``thread_not_found``.
        ThreadDelegatedError: ``thread_delegated``: the agent of a conversation between agents stays.
        InvalidStateError: ``invalid_state``: they cannot be stored.
    """
    _check_columns(columns)
    for name, value in columns.items():
        if not isinstance(value, {"title": str, "metadata": dict}[name]):
            raise errors.InvalidStateError(f"{name} is a {type(value).__name__}")
    locked = lock_key(session, key)
    if locked is None:
        raise errors.ThreadNotFoundError
    if agent is not None:
        refuse_delegated(locked)
    pen = Pen(session, locked)
    pen.thread(**columns)
    if agent not in (None, locked.agent):
        pen.event("agent_switch", None, agent=agent, details={"from": locked.agent, "to": agent})
        pen.thread(agent=agent)
    pen.write()


@write
def claim(session: Session, run_id: UUID, worker: UUID) -> bool:
    """Become the one that runs a submitted run; False when it is not in line any more."""
    run = session.find(Run, run_id)
    if run is None or lock(session, run.thread_id) is None:
        return False
    queued = Run.objects.using(session.alias).filter(pk=run_id, status=Run.Status.QUEUED)
    return bool(queued.update(waiter=worker, wait_until=None))
