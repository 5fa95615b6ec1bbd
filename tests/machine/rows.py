"""The rows of a thread as the machine sees them, and what keeps old ones as they are."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import connection

from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

APPENDED = (Checkpoint, Message, Event)
"""What is only ever added and, with its whole thread, removed."""


class Rows:
    """Every row of a thread. ``read`` fetches what is new; what was appended is read once, since it never changes."""

    thread: Thread | None

    def __init__(self, key: str) -> None:
        self.key = key
        self._begin(None)

    def _begin(self, epoch: UUID | None) -> None:
        self.epoch = epoch
        self.checkpoints: dict[UUID, Checkpoint] = {}  # in the order of their versions
        self.messages: dict[UUID, Message] = {}
        self.events: dict[UUID, Event] = {}  # in the order of their numbers
        self._said: dict[UUID | None, list[dict[str, Any]]] = {None: []}

    def read(self) -> None:
        self.thread = Thread.objects.filter(key=self.key).first()
        epoch = self.thread.pk if self.thread else None
        if epoch != self.epoch:
            self._begin(epoch)
        own = {"thread": epoch}
        self.runs = {run.pk: run for run in Run.objects.filter(**own).order_by("number")}
        self.calls = {call.pk: call for call in ToolCall.objects.filter(**own).order_by("created_at", "try_number")}
        self._add(self.checkpoints, Checkpoint.objects.filter(**own).order_by("version"))
        self._add(self.messages, Message.objects.filter(**own))
        self._add(self.events, Event.objects.filter(**own).order_by("seq"))

    def _add(self, known: dict[UUID, Any], stored: Any) -> None:
        there = stored.values_list("pk", flat=True)
        assert known.keys() <= set(there), "an old row is gone"
        if new := set(there) - known.keys():
            known.update((row.pk, row) for row in stored.filter(pk__in=new))

    @property
    def run(self) -> Run | None:
        """The current one."""
        return self.runs.get(self.thread.current_run_id) if self.thread and self.thread.current_run_id else None

    @property
    def head(self) -> Checkpoint | None:
        return self.checkpoints[self.thread.head_id] if self.thread and self.thread.head_id else None

    def chain(self, checkpoint: UUID | None) -> list[UUID]:
        """A checkpoint and its ancestors."""
        found = []
        while checkpoint is not None:
            found.append(checkpoint)
            checkpoint = self.checkpoints[checkpoint].parent_id
        return found

    def said(self, checkpoint: UUID) -> list[dict[str, Any]]:
        """The conversation at a checkpoint."""
        return self._said_until(self.checkpoints[checkpoint].message_id)

    def _said_until(self, pk: UUID | None) -> list[dict[str, Any]]:
        if pk not in self._said:
            message = self.messages[pk]  # type: ignore[index]
            before = self._said_until(message.parent_id)
            self._said[pk] = [*before, {"role": message.role, "content": message.content}]
        return self._said[pk]


@contextmanager
def append_only() -> Iterator[None]:
    """Have the database itself refuse whoever changes an appended row."""
    tables = [model._meta.db_table for model in APPENDED]
    with connection.cursor() as cursor:
        for statement in _guards(tables):
            cursor.execute(statement)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"DROP TRIGGER only_appended_{table}" + _on(table))


def _guards(tables: list[str]) -> Iterator[str]:
    if connection.vendor == "postgresql":
        yield """
            CREATE OR REPLACE FUNCTION only_appended() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN RAISE EXCEPTION 'a row of % was changed', TG_TABLE_NAME; END $$
        """
        refuses = "FOR EACH ROW EXECUTE FUNCTION only_appended()"
    else:
        refuses = "BEGIN SELECT RAISE(ABORT, 'an appended row was changed'); END"
    for table in tables:
        yield f"CREATE TRIGGER only_appended_{table} BEFORE UPDATE ON {table} {refuses}"


def _on(table: str) -> str:
    return f" ON {table}" if connection.vendor == "postgresql" else ""
