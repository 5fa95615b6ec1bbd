"""Statements compiled once from the models, and the one transaction that a save is.

Django's ORM builds its SQL anew at each call, which costs more than the database does. Here a queryset is
compiled once for each database, its values left open, and then only executed. No table or column is named
twice: the models are the only place.
"""

from __future__ import annotations

from collections import namedtuple
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from uuid import UUID

from django.db import models, router, transaction
from django.db.models import Expression, sql
from django.db.models.constants import OnConflict
from django.db.models.expressions import DatabaseDefault

from criogen_threads.conf import settings
from criogen_threads.engine.journal.driver import open_cursor, pipeline
from criogen_threads.models import Thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.utils import CursorWrapper
    from django.db.models import Field, Model, QuerySet
    from django.db.transaction import Atomic
    from django.dispatch import Signal

    AnyField = Field[Any, Any]

M = TypeVar("M", bound="Model")


# Fields of these classes hand these values to psycopg as they are, after a dozen calls each.
PLAIN_FIELDS = {
    models.AutoField, models.BigAutoField, models.BooleanField, models.CharField, models.DateTimeField,
    models.PositiveBigIntegerField, models.PositiveIntegerField, models.UUIDField,
}  # fmt: skip
PLAIN_VALUES = {type(None), bool, int, str, datetime, UUID}


class Bind(Expression):
    """A value of a statement that is given when it runs."""

    def __init__(self, name: str, field: AnyField) -> None:
        super().__init__(output_field=field)
        self.name = name
        self.plain = type(getattr(field, "target_field", field)) in PLAIN_FIELDS

    def prepared(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        """The value as the database's driver takes it."""
        if self.plain and type(value) in PLAIN_VALUES and connection.vendor == "postgresql":
            return value
        return self.output_field.get_db_prep_save(value, connection)

    def as_sql(self, compiler: Any, connection: Any) -> Any:  # noqa: ARG002 (Django's own signature)
        return "%s", [self]


def bind(model: type[Model], field: str, name: str = "") -> Any:
    """An open value with the type of a model's field, called like the field unless named otherwise."""
    return Bind(name or field, cast("AnyField", model._meta.get_field(field)))


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with open values, for one database."""

    text: str
    params: tuple[Any, ...]
    read: Callable[[Any], list[Any]] = list

    def values(self, connection: BaseDatabaseWrapper, binds: dict[str, Any]) -> list[Any]:
        return [
            param.prepared(binds[param.name], connection) if isinstance(param, Bind) else param for param in self.params
        ]


class Select:
    """A query with named columns and open values, compiled when first used on a database."""

    def __init__(self, build: Callable[[BaseDatabaseWrapper], QuerySet[Any, Any]]) -> None:
        self.build = build
        self.compiled: dict[str, Statement] = {}

    def statement(self, connection: BaseDatabaseWrapper) -> Statement:
        if connection.alias not in self.compiled:
            self.compiled[connection.alias] = _compile_select(self.build(connection), connection)
        return self.compiled[connection.alias]


def _compile_select(queryset: QuerySet[Any, Any], connection: BaseDatabaseWrapper) -> Statement:
    query = queryset.query
    names = [*query.extra_select, *query.values_select, *query.annotation_select]
    row_type = namedtuple("Row", [name.replace("__", "_") for name in names])  # type: ignore[misc]
    compiler = query.get_compiler(connection=connection)
    text, params = compiler.as_sql()
    converters = compiler.get_converters([column for column, _, _ in compiler.select])

    def read(rows: Any) -> list[Any]:
        if converters:
            rows = compiler.apply_converters(rows, converters)
        return [row_type(*row) for row in rows]

    return Statement(*_with_constants(text, params, connection), read)


def _with_constants(text: str, params: Sequence[Any], connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
    """Constants stand in the SQL itself: a plan that is kept for any values can use a partial index only then."""
    quote = connection.schema_editor().quote_value
    stay = [isinstance(param, Bind) or "%" in str(param) for param in params]
    first, *others = text.split("%s")
    places = ("%s" if stays else quote(param) for param, stays in zip(params, stay, strict=True))
    filled = first + "".join(place + part for place, part in zip(places, others, strict=True))
    return filled, tuple(compress(params, stay))


def _given(row: Model) -> tuple[AnyField, ...]:
    """The columns that a row brings; the others have their default in the database."""
    values = vars(row)
    return tuple(field for field in row._meta.concrete_fields if not isinstance(values[field.attname], DatabaseDefault))


@lru_cache(maxsize=512)
def _insert(alias: str, model: type[Model], fields: tuple[AnyField, ...], count: int, ignore: bool) -> Statement:
    """Its values are those of the first row, in the order of the fields, then those of the next."""
    rows = [model(**{field.attname: Bind(field.attname, field) for field in fields}) for _ in range(count)]
    query = sql.InsertQuery(model, on_conflict=OnConflict.IGNORE if ignore else None)
    query.insert_values(fields, rows, raw=True)
    [(text, params)] = query.get_compiler(using=alias).as_sql()
    return Statement(text, tuple(params))


@cache
def _update(alias: str, model: type[Model], columns: tuple[str, ...]) -> Statement:
    queryset = model._base_manager.filter(pk=bind(model, "id", "pk"))
    query: Any = queryset.query.chain(sql.UpdateQuery)
    query.add_update_values({name: bind(model, name) for name in columns})
    text, params = query.get_compiler(using=alias).as_sql()
    return Statement(text, tuple(params))


MOST_ROWS = 500
"""Rows of one INSERT: databases limit how many values a statement may have."""

MOST_VALUES = 30_000
"""Values of several writes in one statement."""

Part: TypeAlias = tuple[str, list[Any]]
"""One write: its SQL and its values."""


@lru_cache(maxsize=512)
def _joined(texts: tuple[str, ...]) -> str:
    """Several writes as one statement, which PostgreSQL runs in no order: none of them sees what another writes."""
    *others, last = texts
    named = ", ".join(f"write_{number} AS ({text})" for number, text in enumerate(others))
    return f"WITH {named} {last}" if others else last


class AlreadyWritten(Exception):
    """The write that is being repeated took effect the first time."""


class Session:
    """One attempt at a write: a transaction that executes compiled statements.

    Args:
        connection: The connection that the transaction is opened on.
        earlier: The session of the attempt that this one repeats.
    """

    def __init__(self, connection: BaseDatabaseWrapper, earlier: Session | None = None) -> None:
        self.connection = connection
        self.alias = connection.alias
        self.proof: tuple[type[Model], Any] | None = earlier.proof if earlier else None
        self.earlier_proof = self.proof  # what this attempt inserts says nothing about the one before
        self.outbox: list[tuple[Signal, dict[str, Any]]] = earlier.outbox if earlier else []
        self.written: list[Any] = earlier.written if earlier else []
        self.cursors: list[CursorWrapper] = []
        self.repeats = earlier is not None
        self.finished = False

    def transaction(self) -> Atomic:
        """A transaction of its own, never part of another: what it writes is committed when this block ends."""
        return transaction.atomic(using=self.alias, durable=not settings.IN_CALLING_THREAD)

    def refuse_repetition(self) -> None:
        """Below the lock: stop when an earlier attempt at this write, whose answer was lost, took effect.

        Raises:
            AlreadyWritten: It did.
        """
        if self.repeats and self._exists(self.earlier_proof):
            raise AlreadyWritten
        self.outbox = []
        self.written = []

    def took_effect(self) -> bool:
        """Whether this transaction was committed although leaving it raised: a hook of on_commit may fail."""
        connection = self.connection
        return self.finished and connection.is_usable() and not connection.in_atomic_block and self._exists(self.proof)

    def lost(self, error: BaseException) -> bool:
        """Whether this error ended the transaction; another database of the site may have raised it."""
        return getattr(error.__cause__, "sqlstate", None) is not None or not self.connection.is_usable()

    def _exists(self, proof: tuple[type[Model], Any] | None) -> bool:
        if proof is None:
            return False
        model, pk = proof
        return model._base_manager.using(self.alias).filter(pk=pk).exists()

    def tell(self, signal: Signal, **facts: Any) -> None:
        """Send a signal once this transaction is committed."""
        self.outbox.append((signal, facts))

    def announce(self) -> None:
        """Send what the committed transaction had to tell; a receiver that fails is logged, no more."""
        for saved in self.written:
            saved.publish()
        for signal, facts in self.outbox:
            signal.send_robust(sender=Thread, **facts)

    def rows(self, select: Select, **binds: Any) -> list[Any]:
        return self.together(select, **binds)[0]

    def together(self, *selects: Select, **binds: Any) -> list[list[Any]]:
        """The rows of several queries with the same values, asked one after the other in one round trip."""
        statements = [select.statement(self.connection) for select in selects]
        with self.pipelined() if len(statements) > 1 else nullcontext():
            cursors = [
                self._execute(statement.text, statement.values(self.connection, binds), cursor=number)
                for number, statement in enumerate(statements)
            ]
        return [statement.read(cursor.fetchall()) for cursor, statement in zip(cursors, statements, strict=True)]

    def row(self, select: Select, **binds: Any) -> Any:
        """The first row, or None."""
        return next(iter(self.rows(select, **binds)), None)

    def find(self, model: type[M], pk: Any, **conditions: Any) -> M | None:
        """One row; None where there is no such id."""
        return None if pk is None else model._base_manager.using(self.alias).filter(pk=pk, **conditions).first()

    def insert(self, rows: Sequence[Model], *, ignore_conflicts: bool = False) -> None:
        """Insert rows of one model, in one statement unless they are very many."""
        for text, values in self._inserts(rows, ignore_conflicts):
            self._execute(text, values)

    def update(self, model: type[Model], pk: Any, **values: Any) -> None:
        """Set columns of one row."""
        self._execute(*self._update(model, pk, values))

    def put_down(
        self, inserts: Iterable[Sequence[Model]], updates: Mapping[tuple[type[Model], Any], dict[str, Any]]
    ) -> None:
        """Insert rows and set columns of other rows: in one statement where the database can, and they are not many.

        Args:
            updates: By model and id, the columns.
        """
        parts = [part for rows in inserts for part in self._inserts(rows)]
        parts += [self._update(model, pk, values) for (model, pk), values in updates.items()]
        joins = len(parts) > 1 and self.connection.vendor == "postgresql"
        if joins and sum(len(values) for _, values in parts) <= MOST_VALUES:
            parts = [(_joined(tuple(text for text, _ in parts)), [value for _, values in parts for value in values])]
        with self.pipelined() if len(parts) > 1 else nullcontext():
            for text, values in parts:
                self._execute(text, values)

    def _inserts(self, rows: Sequence[Model], ignore_conflicts: bool = False) -> Iterator[Part]:
        for start in range(0, len(rows), MOST_ROWS):
            self.proof = (type(rows[0]), rows[0].pk)
            yield self._insert(rows[start : start + MOST_ROWS], ignore_conflicts)

    def _insert(self, rows: Sequence[Model], ignore_conflicts: bool) -> Part:
        fields = _given(rows[0])
        statement = _insert(self.alias, type(rows[0]), fields, len(rows), ignore_conflicts)
        values = [vars(row)[field.attname] for row in rows for field in fields]
        prepared = [bind.prepared(value, self.connection) for bind, value in zip(statement.params, values, strict=True)]
        return statement.text, prepared

    def _update(self, model: type[Model], pk: Any, values: dict[str, Any]) -> Part:
        statement = _update(self.alias, model, tuple(sorted(values)))
        return statement.text, statement.values(self.connection, {"pk": pk, **values})

    def _execute(self, text: str, values: Sequence[Any], cursor: int = 0) -> CursorWrapper:
        """Run SQL on one of this transaction's cursors, each made once: making one takes as long as using it."""
        while len(self.cursors) <= cursor:
            self.cursors.append(open_cursor(self.connection))
        self.cursors[cursor].execute(text, values)
        return self.cursors[cursor]

    @contextmanager
    def pipelined(self) -> Iterator[None]:
        """Send the statements of this block together, where the database can; their errors come at its end."""
        with self.connection.wrap_database_errors, pipeline(self.connection):
            yield


def database() -> str:
    """The alias of the database that holds the rows."""
    return router.db_for_write(Thread)
