"""Going back to an older checkpoint, and deleting a thread."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from criogen_threads import errors
from criogen_threads.engine.conversation import Conversation
from criogen_threads.engine.journal import takes
from criogen_threads.engine.journal.askers import SITE, Asker
from criogen_threads.engine.journal.calls import Planned, add_calls
from criogen_threads.engine.journal.forks import fork_run
from criogen_threads.engine.journal.leaving import leave_run
from criogen_threads.engine.journal.locks import lock_family
from criogen_threads.engine.journal.pen import Locked, Pen, lock_key, reread
from criogen_threads.engine.journal.turns import put_in_line, sent_before
from criogen_threads.engine.journal.writing import write
from criogen_threads.ids import new_id
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from criogen_threads.signals import thread_deleted, thread_rewound

if TYPE_CHECKING:
    from collections.abc import Callable

    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.engine.journal.turns import SentBefore, Turn, Waiting


@dataclass(frozen=True, slots=True)
class Rewind:
    """Where somebody wants to go back to. Its ids are made once, so that a repeated write finds what it wrote.

    A ``target_id`` of None is the beginning, where nothing was said. ``allowed`` is asked below the lock, with the
    thread and the last message of the target, and raises where it refuses; ``run_id`` is the id of the run that is
    born where the target waited for approvals; without ``waits_again`` none is. ``parent_run_id`` and ``below`` are
    the run that asks for it, and the event that it hangs below.
    """

    target_id: UUID | None
    asker: Asker = SITE
    allowed: Callable[[Locked, UUID | None], None] | None = None
    checkpoint_id: UUID = field(default_factory=new_id)
    run_id: UUID = field(default_factory=new_id)
    parent_run_id: UUID | None = None
    below: UUID | None = None
    waits_again: bool = True


@write
def rewind(session: Session, key: str, wish: Rewind) -> Checkpoint | None:
    """Make an older checkpoint the head again: a fork checkpoint that copies it. Nothing is overwritten.

    Returns:
        The new head; None while a process holds the thread.

    Raises:
        CheckpointNotFoundError: ``checkpoint_not_found``.
    """
    locked = lock_key(session, key)
    if locked is None:
        raise errors.CheckpointNotFoundError
    takes.refuse_delegated(locked)
    return go_back(session, locked, wish)


@write
def resend(session: Session, turn: Turn, wish: Rewind, worker: UUID) -> Waiting | SentBefore | None:
    """Go back and put a turn first in line, in one transaction: both, or nothing.

    Returns:
        None while a process holds the thread.

    Raises:
        CheckpointNotFoundError: ``checkpoint_not_found``.
        ThreadSuspendedError: ``thread_suspended``: the target waits for approvals.
        CriogenError: As ``turns.submit``.
    """
    locked = lock_key(session, turn.key)
    if locked is None:
        raise errors.CheckpointNotFoundError
    takes.refuse_delegated(locked)
    if before := sent_before(session, turn, locked):
        return before
    if go_back(session, locked, wish) is None:
        return None
    return put_in_line(session, reread(session, locked.id), replace(turn, on_busy="interrupt"), worker)


def go_back(session: Session, locked: Locked, wish: Rewind) -> Checkpoint | None:
    """Below the lock: the new head; None while a process holds the thread."""
    target = session.find(Checkpoint, wish.target_id, thread=locked.id)
    if target is None and wish.target_id is not None:
        raise errors.CheckpointNotFoundError
    if locked.held:
        return None
    if wish.allowed is not None:
        wish.allowed(locked, target.message_id if target else None)
    pen = Pen(session, locked)
    leave_run(pen, errors.RunAbandonedError)
    head = _fork(pen, target, wish.checkpoint_id)
    origin = str(wish.target_id) if target else None
    details = {"from": origin, "to": str(head.pk), **wish.asker.named("rewound_by")}
    pen.event("checkpoint_fork", None, agent=locked.agent, details=details)
    if target is not None and target.status == Checkpoint.Status.SUSPENDED and wish.waits_again:
        _wait_again(pen, target, wish)
    pen.tell(thread_rewound, checkpoint_id=wish.target_id, head=head.pk)
    pen.write()
    return head


def _state_at(session: Session, target: Checkpoint) -> dict[str, Any]:
    """The state as it was at a checkpoint."""
    at = session.find(Checkpoint, target.state_at_id)
    return (at.state or {}) if at else {}


def _fork(pen: Pen, target: Checkpoint | None, checkpoint_id: UUID) -> Checkpoint:
    """The new head: the child of the checkpoint that it copies."""
    locked = pen.locked
    state = _state_at(pen.session, target) if target else {}
    target = target or Checkpoint(id=None, status=Checkpoint.Status.COMPLETED)
    version = locked.version + 1
    head = Checkpoint(
        id=checkpoint_id,
        thread_id=locked.id,
        run_id=target.run_id,
        version=version,
        status=target.status,
        source="fork",
        step=target.step,
        parent_id=target.pk,
        message_id=target.message_id,
        state_at_id=target.state_at_id,
        agent=target.agent,
        delegated=target.delegated,
        created_at=locked.now,
    )
    pen.checkpoints.append(head)
    pen.thread(
        head=head.pk, version=version, state=state, status=Thread.Status.IDLE, current_run=None, holder=None,
        cancel_mark=None, pending=0, agent=target.agent or locked.agent,
    )  # fmt: skip
    return head


def _wait_again(pen: Pen, target: Checkpoint, wish: Rewind) -> None:
    """The target waited for people: a new run waits for them again, and older answers do not count."""
    origin = pen.session.find(Run, target.run_id)
    if origin is None:
        return
    run = fork_run(
        pen, origin, wish.run_id, status=Run.Status.REQUIRES_ACTION, step=target.step, message_id=target.message_id,
        asker=wish.asker, parent_run_id=wish.parent_run_id, below=wish.below,
    )  # fmt: skip
    pen.thread(status=Thread.Status.SUSPENDED, current_run=run.id)
    pen.locked.pending = 0
    add_calls(pen, run, [_asked_again(call, run, target) for call in _open_at(target, origin.pk)])


def _open_at(target: Checkpoint, run_id: UUID) -> list[ToolCall]:
    """The calls that were open at a suspended checkpoint."""
    conversation = Conversation.read(target.message_id)
    newest = conversation.newest(run_id)
    return [newest[index] for index in conversation.open_indexes() if index in newest]


def _asked_again(call: ToolCall, run: Run, target: Checkpoint) -> Planned:
    """A call as it was then: it waits for a person, for another agent, or for those that do."""
    stood = (target.delegated or {}).get(str(call.index))
    status = ToolCall.Status.AWAITING_APPROVAL if call.approver else ToolCall.Status.READY
    again = ToolCall(
        id=new_id(),
        thread_id=call.thread_id,
        run_id=run.id,
        message_id=call.message_id,
        step=call.step,
        index=call.index,
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
        approver=call.approver,
        arguments_digest=call.arguments_digest,
        status=ToolCall.Status.WAITING if stood else status,
        child_run_id=new_id() if call.child_run_id else None,
        child_checkpoint_id=UUID(stood) if stood else None,
    )
    return Planned(again, call.expires_at - call.created_at if call.expires_at else None)


@write
def delete(session: Session, key: str) -> bool | None:
    """Delete a thread with everything of it, and with the threads of the agents that were asked in it: zero rows
    are left.

    Returns:
        True if it existed, False if not, None while a process holds it.

    Raises:
        ThreadDelegatedError: ``thread_delegated``.
    """
    before = session.outbox  # of an attempt whose COMMIT got no answer
    family = lock_family(session, key)
    first = family[0] if family else None
    if before and (first is None or first.id != before[0][1]["thread_id"]):
        session.outbox = before
        return True  # it had succeeded: what stands there now is another conversation
    if first is None:
        return False
    takes.refuse_delegated(first)
    if any(locked.held for locked in family):
        return None
    for locked in family:
        _delete_rows(session, locked)
    return True


def _delete_rows(session: Session, locked: Locked) -> None:
    for model in (Event, ToolCall, Message, Checkpoint, Run):
        model._base_manager.using(session.alias).filter(thread=locked.id)._raw_delete(session.alias)
    Thread.objects.using(session.alias).filter(pk=locked.id)._raw_delete(session.alias)
    session.tell(thread_deleted, thread=locked.key, thread_id=locked.id)
