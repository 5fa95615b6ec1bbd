"""The locked thread, and the pen that writes below its lock.

Every write goes the same way: lock the thread row, read where the thread stands in a second statement, check,
append rows, move the head. The two reads travel together; so do all the writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import (
    BooleanField,
    CharField,
    DateTimeField,
    Exists,
    ExpressionWrapper,
    Func,
    OuterRef,
    Q,
    Value,
)
from django.db.models.functions import Now

from criogen_threads.conf import settings
from criogen_threads.engine import listening
from criogen_threads.engine.journal.driver import limit_of
from criogen_threads.engine.journal.instances import new
from criogen_threads.engine.journal.statements import Bind, Select, Session, bind
from criogen_threads.ids import new_id
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import Model, QuerySet
    from django.dispatch import Signal

LOCKED_FOR = "15s"

OWN = (
    "id", "key", "agent", "parent_id", "owner_id", "visitor", "status", "state", "ephemeral", "pending", "tokens",
    "current_run_id", "head_id", "version", "event_seq", "holder", "fence", "cancel_mark",
)  # fmt: skip
OF_THE_HEAD = (
    "head__message_id", "head__step", "head__status", "head__state_at_id", "head__run_id", "head__message__position",
)  # fmt: skip


def locking(
    queryset: QuerySet[Thread], connection: BaseDatabaseWrapper, columns: Sequence[str] = ("id",)
) -> QuerySet[Thread, Any]:
    """Lock a thread, for a limited time: a process that stops below the lock must not hold the row for ever."""
    features = connection.features
    locked = queryset.select_for_update(no_key=features.has_select_for_no_key_update)
    if connection.vendor == "postgresql":
        limit = Func(
            Value(limit_of(connection)), Bind("locked_for", CharField()), Value(value=True),
            function="set_config", output_field=CharField(),
        )  # fmt: skip
        return locked.annotate(limit=limit).values_list(*columns, "limit", named=True)
    return locked.values_list(*columns, named=True)


def _standing(queryset: QuerySet[Thread]) -> QuerySet[Thread, Any]:
    holder = Worker.objects.alive().filter(pk=OuterRef("holder"))
    return queryset.annotate(
        held=ExpressionWrapper(Q(holder__isnull=False) & Exists(holder), output_field=BooleanField()),
        now=ExpressionWrapper(Now(), output_field=DateTimeField()),
    ).values_list(*OWN, *OF_THE_HEAD, "held", "now", named=True)


LOCK_BY_ID = Select(lambda connection: locking(Thread.objects.filter(pk=bind(Thread, "id")), connection))
LOCK_BY_KEY = Select(lambda connection: locking(Thread.objects.filter(key=bind(Thread, "key")), connection))
STANDING_BY_ID = Select(lambda _: _standing(Thread.objects.filter(pk=bind(Thread, "id"))))
STANDING_BY_KEY = Select(lambda _: _standing(Thread.objects.filter(key=bind(Thread, "key"))))


@dataclass(slots=True)
class Locked:
    """Where a thread stands, read below its lock."""

    id: UUID
    key: str
    agent: str
    parent_id: UUID | None  # the thread whose agent asked this one's
    owner_id: Any
    visitor: str
    status: str
    state: dict[str, Any]
    ephemeral: bool
    pending: int
    tokens: int
    current_run_id: UUID | None
    head_id: UUID | None
    version: int
    event_seq: int
    holder: UUID | None
    fence: int
    cancel_mark: UUID | None
    message_id: UUID | None  # the last message at the head, and the rest of where the head stands
    step: int | None
    head_status: str | None
    state_at_id: UUID | None
    head_run_id: UUID | None
    position: int | None
    held: bool  # a living process works on it
    now: datetime  # by the database's clock

    @property
    def interrupted(self) -> bool:
        return self.status == Thread.Status.RUNNING and not self.held

    @property
    def due(self) -> bool:
        return self.status == Thread.Status.SUSPENDED and self.pending == 0


def lock(session: Session, thread_id: UUID) -> Locked | None:
    """Lock a thread row; None when there is no such thread.

    The second statement is not a luxury: after a lock wait PostgreSQL reads only the locked row anew, and a
    holder's expiry read in the locking statement would be that of before the wait.
    """
    return _locked(session, LOCK_BY_ID, STANDING_BY_ID, id=thread_id)


def lock_key(session: Session, key: str) -> Locked | None:
    """Like ``lock``, by the id that the site chose."""
    return _locked(session, LOCK_BY_KEY, STANDING_BY_KEY, key=key)


def reread(session: Session, thread_id: UUID) -> Locked:
    """Where a thread stands that this very transaction has locked."""
    return Locked(*session.row(STANDING_BY_ID, id=thread_id))


def locked_for() -> str:
    """How long a lock is held at most; a test's transaction may stand in a debugger."""
    return "0" if settings.IN_CALLING_THREAD else LOCKED_FOR


def _locked(session: Session, lock: Select, standing: Select, **which: Any) -> Locked | None:
    locks, rows = session.together(lock, standing, locked_for=locked_for(), **which)
    session.refuse_repetition()
    return Locked(*rows[0]) if locks and rows else None  # a row that came between the two is not locked


@dataclass(slots=True)
class Saved:
    """What a write has added, for the loop, the listeners and the signals."""

    key: str
    thread_id: UUID
    version: int
    seq: int
    messages: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def publish(self) -> None:
        """Tell whoever watches this process's threads that something of this one is committed."""
        messages = [message.id for message in self.messages]
        listening.publish_saved(listening.Change(self.key, self.thread_id, self.seq, messages))


class Pen:
    """Collects the rows of one write below the lock, and puts them down together."""

    def __init__(self, session: Session, locked: Locked) -> None:
        self.session = session
        self.locked = locked
        self.saved = Saved(locked.key, locked.id, locked.version, locked.event_seq)
        self.columns: dict[str, Any] = {}
        self.checkpoints: list[Checkpoint] = []
        self.runs: list[Run] = []
        self.updates: dict[tuple[type[Model], UUID], dict[str, Any]] = {}
        self.tail = locked.message_id
        self.position = locked.position or 0

    def message(self, role: str, content: list[dict[str, Any]], *, run_id: UUID | None, **values: Any) -> Message:
        """Append a message to the branch."""
        self.position += 1
        message = new(
            Message,
            id=values.pop("id", None) or new_id(),
            thread_id=self.locked.id,
            run_id=run_id,
            role=role,
            content=content,
            parent_id=self.tail,
            position=self.position,
            created_at=self.locked.now,
            **values,
        )
        self.tail = message.id
        self.saved.messages.append(message)
        self.thread(last_message_at=self.locked.now)
        return message

    def checkpoint(
        self, source: str, status: str, *, id: UUID, run_id: UUID | None, step: int, state: Any = None,
        delegated: dict[str, Any] | None = None,
    ) -> Checkpoint:  # fmt: skip
        """Move the head: the one checkpoint of a save. ``state`` only where it changed."""
        locked = self.locked
        self.saved.version = locked.version + 1
        checkpoint = new(
            Checkpoint,
            id=id,
            thread_id=locked.id,
            run_id=run_id,
            version=self.saved.version,
            status=status,
            source=source,
            step=step,
            parent_id=locked.head_id,
            message_id=self.tail,
            state=state,
            state_at_id=id if state is not None else locked.state_at_id,
            agent=self.columns.get("agent", locked.agent),
            delegated=delegated,
            created_at=locked.now,
        )
        self.checkpoints.append(checkpoint)
        self.thread(head=id, version=self.saved.version)
        return checkpoint

    def event(self, type: str, run: Run | None, *, parent: UUID | None = None, **values: Any) -> Event:
        """Note what happened, under the thread's next number; ``parent`` is the event that it hangs below."""
        event = new(
            Event,
            id=values.pop("id", None) or new_id(),
            thread_id=self.locked.id,
            seq=self.locked.event_seq + len(self.saved.events) + 1,
            type=type,
            run_id=run.id if run else None,
            agent=values.pop("agent", run.agent if run else ""),
            parent_id=parent,
            created_at=self.locked.now,
            **values,
        )
        self.saved.events.append(event)
        self.saved.seq = event.seq
        self.thread(event_seq=event.seq)
        return event

    def call(self, call: ToolCall) -> ToolCall:
        """Add a row for a tool call."""
        call.created_at = self.locked.now
        self.saved.calls.append(call)
        return call

    def run(self, run: Run) -> Run:
        """Add a row for a run."""
        run.created_at = self.locked.now
        self.runs.append(run)
        return run

    def tell(self, signal: Signal, **facts: Any) -> None:
        """Send a signal of this thread after the commit."""
        self.session.tell(signal, thread=self.locked.key, thread_id=self.locked.id, **facts)

    def thread(self, **columns: Any) -> None:
        """Set columns of the thread."""
        self.columns.update(columns)

    def update(self, model: type[Run] | type[ToolCall], pk: UUID, **values: Any) -> None:
        """Set columns of a run or a tool call; of one that this pen adds too, before it is put down."""
        for row in (*self.runs, *self.saved.calls):
            if row.pk == pk:
                attributes = {field.name: field.attname for field in model._meta.concrete_fields}
                vars(row).update({attributes[name]: value for name, value in values.items()})
                return
        self.updates.setdefault((model, pk), {}).update(values)

    def write(self) -> Saved:
        """Put everything down, in one round trip where the database can."""
        saved, updates = self.saved, dict(self.updates)
        if self.columns:
            updates[Thread, self.locked.id] = self.columns
        self.session.put_down((self.runs, saved.messages, saved.calls, self.checkpoints, saved.events), updates)
        self.session.written.append(saved)
        return saved
