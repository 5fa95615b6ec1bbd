"""A new turn: started at once where the thread is free, or put in line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.agents import is_registered
from criogen_threads.engine.journal import limits, lines, takes, visiting
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.pen import Locked, Pen, lock_key
from criogen_threads.engine.journal.writing import write
from criogen_threads.ids import new_id
from criogen_threads.models import Run, Thread

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.statements import Session


@dataclass(frozen=True, slots=True)
class Turn:
    """What a caller asks for. Its ids are made once, so that a repeated write finds what it wrote."""

    key: str
    agent: str
    content: list[dict[str, Any]]
    state: dict[str, Any] = field(default_factory=dict)
    client_id: str | None = None
    asker: Asker = field(default_factory=Asker)
    locale: str = ""
    on_busy: str = "wait"
    ephemeral: bool = False
    begins_with: str = ""  # the agent of a thread that this turn makes, where it is not that of the turn
    chosen: bool = False  # the caller named the agent of this one turn; else the thread's own answers
    creates: bool = False  # the actor may create this thread, and has no say over one that is there already
    run_id: UUID = field(default_factory=new_id)
    checkpoint_id: UUID = field(default_factory=new_id)

    def creating(self) -> Turn:
        """The same turn of an actor who may only create the thread."""
        return replace(self, creates=True)

    def anew(self) -> Turn:
        """The same turn under new ids: its place in line was lost."""
        return replace(self, run_id=new_id(), checkpoint_id=new_id())


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn is in line."""

    thread_id: UUID
    run_id: UUID


@dataclass(frozen=True, slots=True)
class SentBefore:
    """The same ``client_id`` came before: this is its run."""

    thread_id: UUID
    run_id: UUID


@write
def begin(session: Session, turn: Turn, worker: UUID) -> takes.Lease | Waiting | SentBefore:
    """Start a turn, or put it in line with this process as its waiter.

    Raises:
        ThreadBusyError: ``thread_busy``, with ``on_busy="reject"``.
        ThreadSuspendedError: ``thread_suspended``.
        ThreadInterruptedError: ``thread_interrupted``.
        ClientIdConflictError: ``client_id_conflict``.
        TooManyRunsError: ``too_many_runs``.
    """
    locked = _open(session, turn)
    if before := sent_before(session, turn, locked):
        return before
    number, first = _admit(session, turn, locked)
    if first is None and not locked.held and not locked.due:
        run = _run(turn, locked, number, status=Run.Status.IN_PROGRESS, started_at=locked.now)
        pen = Pen(session, locked)
        return takes.start(pen, pen.run(run), turn.checkpoint_id, worker)
    overdue = locked.now + timedelta(seconds=lines.WAITER_SECONDS)
    _queue(session, locked, _run(turn, locked, number, waiter=worker, wait_until=overdue))
    return Waiting(locked.id, turn.run_id)


@write
def submit(session: Session, turn: Turn, worker: UUID) -> Waiting | SentBefore:
    """Save a turn as queued: safe from here on, run by whoever finds it first in line.

    Raises:
        As ``begin``.
    """
    locked = _open(session, turn)
    if before := sent_before(session, turn, locked):
        return before
    return put_in_line(session, locked, turn, worker)


def put_in_line(session: Session, locked: Locked, turn: Turn, worker: UUID) -> Waiting:
    """Below the lock: the turn as a queued run, which the dispatcher starts."""
    number, _ = _admit(session, turn, locked)
    _queue(session, locked, _run(turn, locked, number, waiter=worker))
    return Waiting(locked.id, turn.run_id)


def _open(session: Session, turn: Turn) -> Locked:
    """The thread, locked; made here if this is its first turn."""
    locked, asker = lock_key(session, turn.key), turn.asker
    while locked is None:
        agent = turn.begins_with or turn.agent
        thread = Thread(
            key=turn.key, agent=agent, owner_id=asker.user_id, visitor=asker.visitor, ephemeral=turn.ephemeral
        )
        session.insert([thread], ignore_conflicts=True)
        locked = lock_key(session, turn.key)
        if asker.visitor and locked is not None and locked.id == thread.pk:
            visiting.refuse_beginning(session, asker, locked.now)
    if turn.creates and not asker.has(locked):
        raise errors.ThreadNotFoundError  # another user was faster: to this one it does not exist
    takes.refuse_delegated(locked)
    return locked


def sent_before(session: Session, turn: Turn, locked: Locked) -> SentBefore | None:
    """The run that came with the same ``client_id``."""
    if turn.client_id is None:
        return None
    stored = Run.objects.using(session.alias).filter(thread=locked.id, client_id=turn.client_id)
    run = stored.first()
    if run is not None and run.status == Run.Status.QUEUED:
        lines.purge(session, locked.id)  # the caller that waited may be dead: then it was not sent
        run = stored.first()
    if run is None:
        return None
    if run.input != turn.content:
        raise errors.ClientIdConflictError
    return SentBefore(locked.id, run.id)


def _admit(session: Session, turn: Turn, locked: Locked) -> tuple[int, UUID | None]:
    """The turn's number, and who is first in line; refuses what may not even wait."""
    number, first = lines.place(session, locked.id)
    if first is not None:
        lines.purge(session, locked.id)
        number, first = lines.place(session, locked.id)
    if not locked.held and not locked.due:
        takes.refuse_unfinished(session, locked)
    if turn.on_busy == "reject" and (locked.held or locked.due or first is not None):
        raise errors.ThreadBusyError
    limits.refuse_too_many(session, turn.asker)
    return number, first


def _run(turn: Turn, locked: Locked, number: int, **values: Any) -> Run:
    return Run(
        id=turn.run_id,
        thread_id=locked.id,
        number=number,
        agent=_answerer(turn, locked),
        **turn.asker.columns(),
        input=turn.content,
        state=turn.state or None,
        locale=turn.locale,
        client_id=turn.client_id,
        urgent=turn.on_busy == "interrupt",
        **values,
    )


def _answerer(turn: Turn, locked: Locked) -> str:
    """The agent of this turn: the one that was chosen, else the thread's; one that is gone is taken over from."""
    return turn.agent if turn.chosen or not is_registered(locked.agent) else locked.agent


def _queue(session: Session, locked: Locked, run: Run) -> None:
    """Put a run in line; an urgent one stops the run that is under way."""
    pen = Pen(session, locked)
    pen.run(run)
    if run.urgent and locked.held:
        pen.thread(cancel_mark=locked.current_run_id)
    pen.write()
