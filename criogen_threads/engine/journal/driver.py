"""What psycopg can do for many statements and many rows, and Django leaves alone."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import psycopg
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.utils import CursorWrapper


LIMITS_TRANSACTIONS = 170_000
"""The first PostgreSQL that has ``transaction_timeout``."""


def limit_of(connection: BaseDatabaseWrapper) -> str:
    """The server's limit for a process that stops below the lock of a thread."""
    newer = connection.pg_version >= LIMITS_TRANSACTIONS  # type: ignore[attr-defined]
    return "transaction_timeout" if newer else "idle_in_transaction_session_timeout"


def pipeline(connection: BaseDatabaseWrapper) -> AbstractContextManager[Any]:
    """Send the statements of this block together, where the driver can and the server limits whole transactions.

    An older one limits idle ones only, which rests inside a pipeline, and after one too: psycopg ends it with a
    Flush. A process that stops there would hold the lock for ever.
    """
    raw = _psycopg(connection)
    if raw is None or raw.info.server_version < LIMITS_TRANSACTIONS:
        return nullcontext()
    return raw.pipeline()


def open_cursor(connection: BaseDatabaseWrapper, *, binary: bool = False) -> CursorWrapper:
    """Django's cursor; on PostgreSQL one that leaves it to the server to bind values, which takes half the time.

    Args:
        binary: Rows travel in PostgreSQL's binary format, where there is one: many are read twice as fast.
    """
    raw = _psycopg(connection)
    if raw is None:
        return connection.cursor()
    from psycopg.pq import Format

    cursor = _numbering_cursor()(raw)
    cursor.format = Format.BINARY if binary else Format.TEXT
    return connection.make_debug_cursor(cursor) if connection.queries_logged else connection.make_cursor(cursor)


@cache
def _numbering_cursor() -> Any:
    """A cursor that psycopg does not make read its statements: it does so anew each time for the longer ones."""
    import psycopg

    class NumberingCursor(psycopg.RawCursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            return super().execute(numbered(query), params, **options)

    return NumberingCursor


@lru_cache(maxsize=1024)
def numbered(text: str) -> bytes:
    """A statement of Django's as PostgreSQL reads it: its values are $1, $2, …"""
    first, *others = text.split("%s")
    return "".join([first, *(f"${n}{part}" for n, part in enumerate(others, 1))]).replace("%%", "%").encode()


def _psycopg(connection: BaseDatabaseWrapper) -> psycopg.Connection[Any] | None:
    """The driver's connection, where it is psycopg 3."""
    if connection.vendor != "postgresql":
        return None
    import psycopg

    connection.ensure_connection()
    return connection.connection if isinstance(connection.connection, psycopg.Connection) else None


_inherited: list[Any] = []  # kept, so that nothing of a parent's pool is closed by its child


def _leave_pools_behind() -> None:
    """After a fork: parent and child must not speak over the same connections. The child opens a pool of its own."""
    if base := sys.modules.get("django.db.backends.postgresql.base"):
        pools = base.DatabaseWrapper._connection_pools
        _inherited.append(dict(pools))
        pools.clear()


os.register_at_fork(after_in_child=_leave_pools_behind)
