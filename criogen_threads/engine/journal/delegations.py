"""Taking the thread of an asked agent: to begin the run that the caller named, or to go on with it.

The id of that run stands in the caller's tool call before anything of it exists. So this may be done again after any
crash: it finds what is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.engine.journal import lines, takes
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.leaving import expire_approvals, leave_run
from criogen_threads.engine.journal.memories import ASKED_BY
from criogen_threads.engine.journal.pen import Pen, lock, reread
from criogen_threads.engine.journal.rewinds import Rewind, go_back
from criogen_threads.engine.journal.writing import write
from criogen_threads.ids import new_id
from criogen_threads.models import Checkpoint, Run, Thread, ToolCall

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Locked
    from criogen_threads.engine.journal.statements import Session


@dataclass(frozen=True, slots=True)
class Delegation:
    """What a run asks of another agent. Its ids are made once, so that a repeated write finds what it wrote.

    Args:
        thread_id: The caller's thread.
        caller: The run that asks.
        call_id: Its tool call, whose event the run hangs below.
        run_id: The run of the asked agent.
        memory: The last message of its conversation that the caller's branch knows of; None: it begins anew.
        checkpoint: After a rewind of the caller: where the agent stood, and goes on from.
        retries: A run that has failed goes on, as the caller's does.
    """

    thread_id: UUID
    caller: Run
    call_id: UUID
    run_id: UUID
    agent: str
    content: list[dict[str, Any]]
    state: dict[str, Any] = field(default_factory=dict)
    memory: UUID | None = None
    checkpoint: UUID | None = None
    retries: bool = False
    checkpoint_id: UUID = field(default_factory=new_id)


@write
def take(session: Session, wish: Delegation, worker: UUID) -> takes.Lease | Run | None:
    """Take the agent's thread to begin this run, or to go on with it.

    Returns:
        The lease; the run where it has ended, or waits for people; None while somebody holds the thread.

    Raises:
        LeaseLostError: ``lease_lost``: the caller's thread is gone.
    """
    locked = _open(session, wish)
    if locked.held:
        return None
    expire_approvals(session, locked)
    run = session.find(Run, wish.run_id, thread=locked.id)
    if run is None:
        return _begin(session, locked, wish, worker)
    if run.status == Run.Status.COMPLETED or locked.current_run_id != run.id:
        return run
    if run.status == Run.Status.FAILED and not wish.retries:
        return run
    if run.status == Run.Status.REQUIRES_ACTION and locked.pending:
        return run
    return takes.take(takes.continued(session, locked, run), run, worker, locked.state, locked.step or 0)


@write
def reopen(session: Session, wish: Delegation) -> None:
    """After a rewind of the caller: the agent waits again where it waited then, its approvals asked for anew."""
    known = _thread_of(session, wish)
    locked = lock(session, known) if known else None
    if locked is None or locked.held or session.find(Run, wish.run_id):
        return
    if session.find(ToolCall, wish.call_id, status="waiting", run__status__in=Run.UNFINISHED) is None:
        return  # the caller has gone elsewhere meanwhile
    if session.find(Checkpoint, wish.checkpoint, thread=locked.id):
        go_back(session, locked, _rewind(session, wish))


def _thread_of(session: Session, wish: Delegation) -> UUID | None:
    threads = Thread.objects.using(session.alias).filter(parent=wish.thread_id, agent=wish.agent)
    return threads.values_list("pk", flat=True).first()


def _open(session: Session, wish: Delegation) -> Locked:
    """The agent's thread, locked; made below the lock of the caller's when it is asked here for the first time."""
    known = _thread_of(session, wish)
    locked = lock(session, known) if known else None
    if locked is not None:
        return locked
    caller = lock(session, wish.thread_id)  # so that nobody deletes it meanwhile
    if caller is None or caller.current_run_id != wish.caller.id:
        raise errors.LeaseLostError
    thread = Thread(
        id=new_id(), key=f"{wish.agent}-{new_id()}", agent=wish.agent, parent_id=caller.id, owner_id=caller.owner_id,
        visitor=caller.visitor, ephemeral=caller.ephemeral,
    )  # fmt: skip
    session.insert([thread], ignore_conflicts=True)
    locked = lock(session, thread.pk)
    if locked is None:
        raise errors.LeaseLostError  # another process asks here: ours has lost the caller's thread
    return locked


def _begin(session: Session, locked: Locked, wish: Delegation, worker: UUID) -> takes.Lease | Run | None:
    if wish.checkpoint and session.find(Checkpoint, wish.checkpoint, thread=locked.id):
        go_back(session, locked, _rewind(session, wish))
        return session.find(Run, wish.run_id)
    locked = _as_remembered(session, locked, wish)
    news = {name: value for name, value in wish.state.items() if locked.state.get(name) != value}
    run = Run(
        id=wish.run_id,
        thread_id=locked.id,
        number=lines.place(session, locked.id)[0],
        status=Run.Status.IN_PROGRESS,
        agent=wish.agent,
        **_asker(session, wish).columns(),
        locale=wish.caller.locale,
        input=wish.content,
        state=news or None,
        parent_run_id=wish.caller.id,
        started_at=locked.now,
    )
    pen = Pen(session, locked)
    return takes.start(
        pen, pen.run(run), wish.checkpoint_id, worker, below=wish.call_id, metadata={ASKED_BY: wish.caller.agent}
    )


def _as_remembered(session: Session, locked: Locked, wish: Delegation) -> Locked:
    """The thread where the caller's branch knows it: what was said off that branch is not remembered."""
    if locked.message_id == wish.memory:
        return _left(session, locked)
    checkpoints = Checkpoint.objects.using(session.alias).filter(thread=locked.id, message=wish.memory)
    target = checkpoints.order_by("-version").first() if wish.memory else None
    asker = _asker(session, wish)
    go_back(session, locked, Rewind(target.pk if target else None, asker, waits_again=False))
    return reread(session, locked.id)


def _left(session: Session, locked: Locked) -> Locked:
    """The thread without a run under way: the one that asked for that has ended, or has gone back."""
    if session.find(Run, locked.current_run_id, status__in=Run.UNFINISHED) is None:
        return locked
    pen = Pen(session, locked)
    leave_run(pen, errors.RunAbandonedError)
    pen.thread(status=Thread.Status.FAILED, current_run=None, cancel_mark=None, holder=None, pending=0)
    pen.write()
    return reread(session, locked.id)


def _asker(session: Session, wish: Delegation) -> Asker:
    """Who asked for the caller's run, as it stands now: a visitor may have signed in since it began."""
    stored = session.find(Run, wish.caller.pk) if wish.caller.visitor else None
    return Asker.of_run(stored or wish.caller)


def _rewind(session: Session, wish: Delegation) -> Rewind:
    return Rewind(
        wish.checkpoint, _asker(session, wish), run_id=wish.run_id, checkpoint_id=wish.checkpoint_id,
        parent_run_id=wish.caller.id, below=wish.call_id,
    )  # fmt: skip
