"""Reading a branch: messages or checkpoints along ``parent``, by one recursive query."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections

from criogen_threads.engine.journal import instances
from criogen_threads.engine.journal.driver import open_cursor
from criogen_threads.engine.journal.statements import Select, bind, database
from criogen_threads.models import Checkpoint, Message, Thread, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from django.db.models import Model, QuerySet

M = TypeVar("M", Message, Checkpoint)


STANDS_AT = {
    Message: Select(lambda _: _of_key("head__message")),
    Checkpoint: Select(lambda _: _of_key("head")),
}
"""Where the thread with a key stands."""


def _of_key(newest: str) -> QuerySet[Thread, Any]:
    return Thread.objects.filter(key=bind(Thread, "key")).values_list(newest, named=True)


@cache
def _walk(alias: str, model: type[Model], limited: bool, whole: bool = True, first: str = "%s") -> str:
    """SQL that reads a row and its ancestors, or their ids only, newest first.

    Each step is a subquery, which can only be a look-up in the index: for a join PostgreSQL reads the whole
    table at each step as long as it is small, or thought to be.
    """
    quote = connections[alias].ops.quote_name
    table = quote(model._meta.db_table)
    names = {field.name: quote(str(field.column)) for field in model._meta.concrete_fields}
    pk, parent = names["id"], names["parent"]
    columns = ", ".join(f"row.{name}" for name in names.values()) if whole else "branch.pk"
    rows = f" JOIN {table} row ON row.{pk} = branch.pk" if whole else ""
    stop = " AND depth < %s" if limited else ""
    return (
        f"WITH RECURSIVE branch(pk, parent, depth) AS ("  # noqa: S608 (names come from the model)
        f"SELECT {pk}, {parent}, 1 FROM {table} WHERE {pk} = {first} UNION ALL "
        f"SELECT parent, (SELECT row.{parent} FROM {table} row WHERE row.{pk} = branch.parent), depth + 1 "
        f"FROM branch WHERE parent IS NOT NULL{stop}) "
        f"SELECT {columns} FROM branch{rows} ORDER BY depth"
    )


def ancestors(model: type[M], pk: UUID | None, limit: int | None = None) -> list[M]:
    """A row and what it builds on, newest first; at most ``limit`` of them.

    The cost is that of the rows returned, whatever else the thread has.
    """
    alias = database()
    return instances.loaded(model, alias, _rows(alias, model, pk, limit, whole=True))


def ids(model: type[M], pk: UUID | None, limit: int | None = None) -> list[UUID]:
    """As ``ancestors``, their ids only: where a branch goes, whatever it says."""
    read = model._meta.get_field("id").to_python
    return [read(row[0]) for row in _rows(database(), model, pk, limit, whole=False)]


def values(model: type[M], key: str, limit: int | None = None) -> list[dict[str, Any]]:
    """As ``ancestors``, from where the thread with this key stands, in one statement; by the names of the columns."""
    alias = database()
    first = STANDS_AT[model].statement(connections[alias])
    walk = _walk(alias, model, limit is not None, first=f"({first.text})")
    rows = _fetched(alias, walk, first.values(connections[alias], {"key": key}), limit)
    return instances.values(model, alias, rows)


def _rows(alias: str, model: type[M], pk: UUID | None, limit: int | None, *, whole: bool) -> Sequence[Any]:
    if pk is None:
        return []
    key = model._meta.get_field("id").get_db_prep_value(pk, connections[alias])
    return _fetched(alias, _walk(alias, model, limit is not None, whole), [key], limit)


def _fetched(alias: str, walk: str, first: list[Any], limit: int | None) -> Sequence[Any]:
    if limit is not None and limit < 1:
        return []
    with open_cursor(connections[alias], binary=True) as cursor:
        cursor.execute(walk, first if limit is None else [*first, limit])
        rows: Sequence[Any] = cursor.fetchall()
        return rows


def messages(tail: UUID | None, limit: int | None = None) -> list[Message]:
    """The conversation up to a message, oldest first; the last ``limit`` of it."""
    return ancestors(Message, tail, limit)[::-1]


def calls_of(message_id: UUID, thread_id: UUID) -> list[ToolCall]:
    """Every row of the tool calls that an answer asked for, in all runs, oldest try first."""
    calls = ToolCall.objects.using(database()).filter(thread=thread_id, message=message_id)
    return list(calls.order_by("index", "created_at", "try_number"))
