"""A database for each contestant, made from one template and dropped at the end."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.services import PostgreSQL

if TYPE_CHECKING:
    from collections.abc import Iterator


class DurablePostgreSQL(PostgreSQL):
    """With the settings of a server that keeps its promises: each commit waits for the disk."""

    settings = {"listen_addresses": "", "max_connections": "300"}


class Databases:
    """Databases on one server.

    Args:
        url: The server's address, with the right to create databases.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.made: list[str] = []

    def make(self, name: str, template: str | None = None) -> str:
        """A new database, a copy of an earlier one where a template is named; returns its address."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.full_name(name)))
        if template is not None:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(self.full_name(template)))
        self._execute(statement)
        self.made.append(name)
        return self.address(name)

    def full_name(self, name: str) -> str:
        return f"criogen_bench_{os.getpid()}_{name}"

    def address(self, name: str) -> str:
        parts = {**conninfo_to_dict(self.url), "dbname": self.full_name(name)}
        return make_conninfo("", **{key: str(value) for key, value in parts.items()})

    def drop(self) -> None:
        for name in self.made:
            database = sql.Identifier(self.full_name(name))
            self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(database))
        self.made.clear()

    def empty(self, name: str) -> None:
        """As if no conversation had ever been kept here."""
        with psycopg.connect(self.address(name), autocommit=True) as connection:
            tables = sql.SQL(", ").join(map(sql.Identifier, _tables(connection)))
            connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(tables))

    def size(self, name: str) -> tuple[int, dict[str, int]]:
        """Bytes of the conversation's tables, with indexes and out-of-line texts; rows by table."""
        with psycopg.connect(self.address(name), autocommit=True) as connection:
            size, rows = 0, {}
            for table in _tables(connection):
                identifier = sql.Identifier(table)
                count = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(identifier)).fetchone()
                total = connection.execute("SELECT pg_total_relation_size(%s::regclass)", [table]).fetchone()
                assert count is not None
                assert total is not None
                rows[table] = count[0]
                size += total[0] if count[0] else 0
        return size, rows

    def logged(self) -> int:
        """Bytes that the server has ever written to its log (WAL): whatever it is asked to keep goes there."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
            assert row is not None
            return int(row[0])

    def _execute(self, statement: sql.Composable) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)


def _tables(connection: psycopg.Connection[tuple[Any, ...]]) -> list[str]:
    """The tables of conversations, whoever made them."""
    found = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        " AND (tablename LIKE 'criogen%' OR tablename LIKE 'checkpoint%')"
        " AND tablename NOT IN ('criogen_threads_worker', 'checkpoint_migrations') ORDER BY tablename"
    )
    return [table for (table,) in found]


@contextmanager
def server(*, durable: bool) -> Iterator[Databases]:
    """The server that ``DATABASE_URL`` names, else one of our own."""
    with ExitStack() as stack:
        url = os.environ.get("DATABASE_URL")
        if not url:
            url = stack.enter_context(DurablePostgreSQL() if durable else PostgreSQL()).url
        databases = Databases(url)
        stack.callback(databases.drop)
        yield databases
