"""Cutting off old history: rows are deleted, and what is left begins with a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.engine.journal import branches, memories
from criogen_threads.engine.journal.pen import Pen, lock_key
from criogen_threads.engine.journal.takes import refuse_delegated
from criogen_threads.engine.journal.writing import write
from criogen_threads.models import Checkpoint, Event, Message, Run, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Locked
    from criogen_threads.engine.journal.statements import Session


def old(tail: UUID | None, keep: int) -> tuple[list[Message], Message | None]:
    """The messages of a branch before its last turns, and the one that it begins with without them.

    Args:
        keep: How many turns stay; a run under way is in the last of them.
    """
    said = branches.messages(tail)
    turns = [number for number, message in enumerate(said) if message.role == Message.Role.USER]
    if len(turns) <= keep:
        return [], None
    return said[: turns[-keep]], said[turns[-keep]]


@write
def cut(session: Session, key: str, first_id: UUID) -> int | None:
    """Delete what was said before a message, whatever is on other branches, and the checkpoints that stood there.

    The conversation begins with that message from now on, and the oldest checkpoint that is left says that it was cut
    off there. Its runs stay as a record without what was said in them.

    Returns:
        How many messages there were; None while a process holds the thread.

    Raises:
        ThreadNotFoundError: ``thread_not_found``.
        ThreadDelegatedError: ``thread_delegated``.
    """
    locked = lock_key(session, key)
    if locked is None:
        raise errors.ThreadNotFoundError
    refuse_delegated(locked)
    if locked.held:
        return None
    return _cut(session, locked, first_id)


def _cut(session: Session, locked: Locked, first_id: UUID) -> int:
    said = branches.messages(locked.message_id)
    number = next((n for n, message in enumerate(said) if message.pk == first_id), 0)
    if not number:
        return 0
    first = said[number]
    _remember(session, first, said[:number])
    messages = Message.objects.using(session.alias).filter(thread=locked.id)
    left = _after(first_id, messages.order_by("position").values_list("pk", "parent"))
    gone = messages.exclude(pk__in=left).exclude(pk__in=_summaries(said[number:]))
    _cut_checkpoints(session, locked, left)
    _delete_rows(session, locked, left)
    deleted = gone._raw_delete(session.alias)
    pen = Pen(session, locked)
    pen.event("history_cut", None, agent=locked.agent, details={"messages": deleted, "first": str(first_id)})
    pen.write()
    return deleted


def _after(first_id: UUID, messages: Iterable[tuple[UUID, UUID | None]]) -> set[UUID]:
    """A message and all that builds on it, on every branch."""
    left = {first_id}
    for pk, parent in messages:
        if parent in left:
            left.add(pk)
    return left


def _summaries(said: Sequence[Message]) -> list[str]:
    """The summaries that the models of these answers were given."""
    given = [(message.metadata or {}).get("given") or {} for message in said]
    return [note["summary"] for note in given if note.get("summary")]


def _remember(session: Session, first: Message, before: Sequence[Message]) -> None:
    """The first message that is left carries what asked agents remember of those that are cut off."""
    agents = {agent for message in before for agent in memories.agents_of(message)}
    known = {agent: str(memories.last(reversed(before), agent)) for agent in sorted(agents)}
    metadata: dict[str, Any] = {**(first.metadata or {}), **({memories.EARLIER: known} if known else {})}
    session.update(Message, first.pk, parent=None, metadata=metadata or None)


def _cut_checkpoints(session: Session, locked: Locked, left: set[UUID]) -> None:
    """Those that are left begin a history of their own; where the state stood elsewhere, it comes with them."""
    every = {c.pk: c for c in Checkpoint.objects.using(session.alias).filter(thread=locked.id).order_by("version")}
    kept = {pk: c for pk, c in every.items() if c.message_id in left}
    moved: dict[UUID, UUID] = {}
    for checkpoint in kept.values():
        columns: dict[str, Any] = {}
        if checkpoint.parent_id not in kept:
            columns |= {"parent": None, "cut": True}
        if checkpoint.state_at_id is not None and checkpoint.state_at_id not in kept:
            holder = moved.setdefault(checkpoint.state_at_id, checkpoint.pk)
            columns["state_at"] = holder
            if holder == checkpoint.pk and checkpoint.state_at_id in every:
                columns["state"] = every[checkpoint.state_at_id].state
        if columns:
            session.update(Checkpoint, checkpoint.pk, **columns)
    Checkpoint.objects.using(session.alias).filter(thread=locked.id).exclude(pk__in=kept)._raw_delete(session.alias)


def _delete_rows(session: Session, locked: Locked, left: set[UUID]) -> None:
    """Calls, events and inputs of what is gone. What happened to a thread as a whole stays on record."""
    alias = session.alias
    calls = ToolCall.objects.using(alias).filter(thread=locked.id).exclude(message__in=left)
    runs = Run.objects.using(alias).filter(thread=locked.id)
    working = Message.objects.using(alias).filter(pk__in=left).values_list("run", flat=True)
    named = {*working, locked.current_run_id, *runs.queued().values_list("pk", flat=True)}
    stay = {run for run in named if run is not None}
    events = Event.objects.using(alias).filter(thread=locked.id)
    events.filter(run__isnull=False).exclude(run__in=stay)._raw_delete(alias)
    events.filter(message__isnull=False).exclude(message__in=left)._raw_delete(alias)
    events.filter(tool_call__in=calls.values("pk"))._raw_delete(alias)
    calls._raw_delete(alias)
    runs.exclude(pk__in=stay).update(input=None, state=None)
