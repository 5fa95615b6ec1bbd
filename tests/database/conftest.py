"""A PostgreSQL of these tests' own, which they may break, as the database of the package."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections

from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.journal.writing import patiently
from project import database as site
from tests.flush import flush, stop_worker
from tests.services import PostgreSQL
from tests.support import forget_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker
    from pytest_django.fixtures import SettingsWrapper

_numbers = count(1)
POOL = {"timeout": 0.3, "reconnect_timeout": 0.1}


class Router:
    """Everything goes to the database that may break."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return self.alias

    db_for_write = db_for_read


class Breakable(PostgreSQL):
    """A server whose connections can be ended, and which may crash: what it has committed is in its log."""

    settings: ClassVar = {**PostgreSQL.settings, "synchronous_commit": "on"}

    def __init__(self) -> None:
        super().__init__()
        self.alias = f"breakable_{next(_numbers)}"  # threads remember what they have reached under a name

    def terminate(self) -> None:
        """End every connection but that of this call, as an administrator or a failover does."""
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        with psycopg.connect(f"host={self.folder} user=postgres dbname=postgres", autocommit=True) as own:
            own.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}")


class OlderPostgreSQL(Breakable):
    """One that has no ``transaction_timeout``."""

    programs = "pginstall"


@pytest.fixture(scope="module")
def one_server(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[Breakable]:
    """A server of the kind that the module asks for, by ``SERVER``."""
    if connection.vendor == "sqlite":
        pytest.skip("a file does not go away")
    with getattr(request.module, "SERVER", Breakable)() as server, django_db_blocker.unblock():
        entry = site.database(server.url)
        entry["OPTIONS"]["pool"] |= POOL
        connections.settings[server.alias] = connections.configure_settings({"default": {}, server.alias: entry})[
            server.alias
        ]
        call_command("migrate", database=server.alias, verbosity=0)
        try:
            yield server
        finally:
            _forget_connections(server.alias)
            del connections.settings[server.alias]


@contextmanager
def reached_by(**changed: Any) -> Iterator[None]:
    """Reach the database in another way while the block runs: other entries of its settings."""
    entry = connections.settings[database()]
    before = dict(entry)
    try:
        _forget_connections(database())
        entry.update(changed)
        yield
    finally:
        stop_worker()
        _forget_connections(database())
        entry.update(before)


@pytest.fixture
def server(one_server: Breakable, settings: SettingsWrapper, django_db_blocker: DjangoDbBlocker) -> Iterator[Breakable]:
    """The server, running and empty."""
    with django_db_blocker.unblock():
        settings.DATABASE_ROUTERS = [Router(one_server.alias)]
        settings.CRIOGEN_THREADS = {"DATABASE_RETRY_SECONDS": 10, "HEARTBEAT_SECONDS": 5, "MODEL_BACKOFF": 0.01}
        stop_worker()
        yield one_server
        one_server.start()
        stop_worker()
        forget_agents()
        connections[one_server.alias].close()
        patiently(lambda: flush(connections[one_server.alias]))
        connections[one_server.alias].close()


@pytest.fixture
def pool_size(server: Breakable, request: pytest.FixtureRequest) -> Iterator[int]:
    """The database behind a pool that has at most so many connections."""
    options = connections.settings[server.alias]["OPTIONS"]
    with reached_by(OPTIONS={**options, "pool": {**POOL, "min_size": 1, "max_size": request.param}}):
        yield request.param


def _forget_connections(alias: str) -> None:
    with suppress(AttributeError):
        connections[alias].close()
        connections[alias].close_pool()  # type: ignore[attr-defined]
        del connections[alias]
