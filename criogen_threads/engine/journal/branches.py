"""Reading a branch: messages or checkpoints along ``parent``, by one recursive query."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections
from django.db.models.base import ModelState

from criogen_threads import payload
from criogen_threads.engine.journal.driver import open_cursor
from criogen_threads.engine.journal.statements import database
from criogen_threads.models import Checkpoint, Message, ToolCall
from criogen_threads.models.fields import JSONTextField

if TYPE_CHECKING:
    from collections.abc import Sequence
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
        return _instances(model, alias, cursor.fetchall())


def _instances(model: type[M], alias: str, rows: Sequence[Any]) -> list[M]:
    """Rows as instances, as ``from_db`` makes them but for its signals, which take longer than the query."""
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    names = []
    for position, (field, converters, expression) in enumerate(_conversions(alias, model) if rows else ()):
        names.append(field.attname)
        if isinstance(field, JSONTextField):
            columns[position] = payload.loads_all(columns[position])
            continue
        for convert in converters:
            columns[position] = [convert(value, expression, connections[alias]) for value in columns[position]]
    instances = []
    for values in zip(*columns, strict=True):
        instance = model.__new__(model)
        vars(instance).update(zip(names, values, strict=True))
        instance._state = ModelState()
        instance._state.adding, instance._state.db = False, alias
        instances.append(instance)
    return instances


@cache
def _conversions(alias: str, model: type[Model]) -> list[tuple[Any, list[Any], Any]]:
    """Each field, what turns the database's values into Python's, and the column that it is told."""
    columns = [field.get_col(model._meta.db_table) for field in model._meta.concrete_fields]
    converters = model._base_manager.using(alias).all().query.get_compiler(alias).get_converters(columns)
    found = (converters.get(position, ([], column)) for position, column in enumerate(columns))
    return [(column.target, *conversion) for column, conversion in zip(columns, found, strict=True)]


def messages(tail: UUID | None, limit: int | None = None) -> list[Message]:
    """The conversation up to a message, oldest first; the last ``limit`` of it."""
    return ancestors(Message, tail, limit)[::-1]


def calls_of(message_id: UUID, thread_id: UUID) -> list[ToolCall]:
    """Every row of the tool calls that an answer asked for, in all runs, oldest try first."""
    calls = ToolCall.objects.using(database()).filter(thread=thread_id, message=message_id)
    return list(calls.order_by("index", "created_at", "try_number"))
