"""Reading a branch: messages or checkpoints along ``parent``, by one recursive query."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections

from criogen_threads.engine.journal.driver import open_cursor
from criogen_threads.engine.journal.instances import loaded
from criogen_threads.engine.journal.statements import database
from criogen_threads.models import Checkpoint, Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from django.db.models import Model

M = TypeVar("M", Message, Checkpoint)


@cache
def _walk(alias: str, model: type[Model], limited: bool, whole: bool = True) -> str:
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
        f"SELECT {pk}, {parent}, 1 FROM {table} WHERE {pk} = %s UNION ALL "
        f"SELECT parent, (SELECT row.{parent} FROM {table} row WHERE row.{pk} = branch.parent), depth + 1 "
        f"FROM branch WHERE parent IS NOT NULL{stop}) "
        f"SELECT {columns} FROM branch{rows} ORDER BY depth"
    )


def ancestors(model: type[M], pk: UUID | None, limit: int | None = None) -> list[M]:
    """A row and what it builds on, newest first; at most ``limit`` of them.

    The cost is that of the rows returned, whatever else the thread has.
    """
    alias = database()
    return loaded(model, alias, _rows(alias, model, pk, limit, whole=True))


def ids(model: type[M], pk: UUID | None, limit: int | None = None) -> list[UUID]:
    """As ``ancestors``, their ids only: where a branch goes, whatever it says."""
    read = model._meta.get_field("id").to_python
    return [read(row[0]) for row in _rows(database(), model, pk, limit, whole=False)]


def _rows(alias: str, model: type[M], pk: UUID | None, limit: int | None, *, whole: bool) -> Sequence[Any]:
    if pk is None or (limit is not None and limit < 1):
        return []
    connection = connections[alias]
    key = model._meta.get_field("id").get_db_prep_value(pk, connection)
    params: list[Any] = [key] if limit is None else [key, limit]
    with open_cursor(connection, binary=True) as cursor:
        cursor.execute(_walk(alias, model, limit is not None, whole), params)
        rows: Sequence[Any] = cursor.fetchall()
        return rows


def messages(tail: UUID | None, limit: int | None = None) -> list[Message]:
    """The conversation up to a message, oldest first; the last ``limit`` of it."""
    return ancestors(Message, tail, limit)[::-1]


def calls_of(message_id: UUID, thread_id: UUID) -> list[ToolCall]:
    """Every row of the tool calls that an answer asked for, in all runs, oldest try first."""
    calls = ToolCall.objects.using(database()).filter(thread=thread_id, message=message_id)
    return list(calls.order_by("index", "created_at", "try_number"))
