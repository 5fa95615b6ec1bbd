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
    from uuid import UUID

    from django.db.models import Model

M = TypeVar("M", Message, Checkpoint)


@cache
def _walk(alias: str, model: type[Model], limited: bool) -> str:
    """SQL that reads a row and its ancestors, newest first.

    Each step is a subquery, which can only be a look-up in the index: for a join PostgreSQL reads the whole
    table at each step as long as it is small, or thought to be.
    """
    quote = connections[alias].ops.quote_name
    table = quote(model._meta.db_table)
    names = {field.name: quote(str(field.column)) for field in model._meta.concrete_fields}
    pk, parent = names["id"], names["parent"]
    columns = ", ".join(f"row.{name}" for name in names.values())
    stop = " AND depth < %s" if limited else ""
    return (
        f"WITH RECURSIVE branch(pk, parent, depth) AS ("  # noqa: S608 (names come from the model)
        f"SELECT {pk}, {parent}, 1 FROM {table} WHERE {pk} = %s UNION ALL "
        f"SELECT parent, (SELECT row.{parent} FROM {table} row WHERE row.{pk} = branch.parent), depth + 1 "
        f"FROM branch WHERE parent IS NOT NULL{stop}) "
        f"SELECT {columns} FROM branch JOIN {table} row ON row.{pk} = branch.pk ORDER BY depth"
    )


def ancestors(model: type[M], pk: UUID | None, limit: int | None = None) -> list[M]:
    """A row and what it builds on, newest first; at most ``limit`` of them.

    The cost is that of the rows returned, whatever else the thread has.
    """
    if pk is None or (limit is not None and limit < 1):
        return []
    alias = database()
    connection = connections[alias]
    key = model._meta.get_field("id").get_db_prep_value(pk, connection)
    params: list[Any] = [key] if limit is None else [key, limit]
    with open_cursor(connection, binary=True) as cursor:
        cursor.execute(_walk(alias, model, limit is not None), params)
        return loaded(model, alias, cursor.fetchall())


def messages(tail: UUID | None, limit: int | None = None) -> list[Message]:
    """The conversation up to a message, oldest first; the last ``limit`` of it."""
    return ancestors(Message, tail, limit)[::-1]


def calls_of(message_id: UUID, thread_id: UUID) -> list[ToolCall]:
    """Every row of the tool calls that an answer asked for, in all runs, oldest try first."""
    calls = ToolCall.objects.using(database()).filter(thread=thread_id, message=message_id)
    return list(calls.order_by("index", "created_at", "try_number"))
