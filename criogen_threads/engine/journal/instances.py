"""Instances of models, made as Django makes them but for its signals and its care for arguments.

Those take longer than the rows take to be written or read. Columns are named by their attribute (``thread_id``).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections
from django.db.models.base import ModelState

from criogen_threads import payload
from criogen_threads.models.fields import JSONTextField

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.db.models import Model

M = TypeVar("M", bound="Model")


def new(model: type[M], **columns: Any) -> M:
    """A row that is to be stored; what is left out has its default."""
    defaults = _defaults(model)
    if not columns.keys() <= defaults.keys():
        raise TypeError(f"{model.__name__} has no {', '.join(columns.keys() - defaults.keys())}")
    return _made(model, {name: columns[name] if name in columns else defaults[name]() for name in defaults})


@cache
def _defaults(model: type[Model]) -> dict[str, Callable[[], Any]]:
    return {field.attname: field.get_default for field in model._meta.concrete_fields}


def _made(model: type[M], columns: dict[str, Any], alias: str | None = None) -> M:
    """An instance; the alias is that of the database where it is stored already."""
    instance = model.__new__(model)
    vars(instance).update(columns)
    instance._state = ModelState()
    instance._state.adding, instance._state.db = alias is None, alias
    return instance


def loaded(model: type[M], alias: str, rows: Sequence[Any]) -> list[M]:
    """Rows of all columns, as the database's driver gave them, as instances."""
    return [_made(model, columns, alias) for columns in values(model, alias, rows)]


def values(model: type[Model], alias: str, rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows of all columns, as the database's driver gave them, each by the names of its columns."""
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    names = []
    for position, (field, converters, expression) in enumerate(_conversions(alias, model) if rows else ()):
        names.append(field.attname)
        if isinstance(field, JSONTextField):
            columns[position] = payload.loads_all(columns[position])
            continue
        for convert in converters:
            columns[position] = [convert(value, expression, connections[alias]) for value in columns[position]]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@cache
def _conversions(alias: str, model: type[Model]) -> list[tuple[Any, list[Any], Any]]:
    """Each field, what turns the database's values into Python's, and the column that it is told."""
    columns = [field.get_col(model._meta.db_table) for field in model._meta.concrete_fields]
    converters = model._base_manager.using(alias).all().query.get_compiler(alias).get_converters(columns)
    found = (converters.get(position, ([], column)) for position, column in enumerate(columns))
    return [(column.target, *conversion) for column, conversion in zip(columns, found, strict=True)]
