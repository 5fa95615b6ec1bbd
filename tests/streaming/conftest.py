"""Web processes for the tests of the feed, and people to use them.

A web process keeps its worker for as long as it lives, so these tests do not empty the database after each: keys and
names are new ones, and everything goes when the module is done.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from criogen_threads.agents import register, unregister
from criogen_threads.threads import ThreadHandle
from tests.flush import flush, stop_worker
from tests.streaming.client import Client
from tests.streaming.puppet import puppet
from tests.streaming.servers import Web, log_in, web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker

    from tests.services import Valkey

_numbers = count(1)


@pytest.fixture(scope="module")
def committed(django_db_setup: None, django_db_blocker: DjangoDbBlocker, keeps_rows: None) -> Iterator[None]:
    """The database, open to other processes, for a whole module."""
    with django_db_blocker.unblock():
        flush(connection)
        yield
        stop_worker()
        flush(connection)
        connection.close()


@pytest.fixture(scope="module", params=["alone", "together"])
def site(
    request: pytest.FixtureRequest, committed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Web]]:
    """Where to send, and where to watch: one process without a channel layer, or two with Valkey between them."""
    folder = tmp_path_factory.mktemp("web")
    if request.param == "alone":
        with web(folder) as processes:
            yield processes * 2
        return
    if connection.vendor == "sqlite":
        pytest.skip("two processes are for PostgreSQL")
    valkey: Valkey = request.getfixturevalue("valkey")
    with web(folder, 2, layer=valkey.url) as processes:
        yield processes


class Room:
    """A thread that nobody else uses, its owner, and the owner's session."""

    def __init__(self, **user: Any) -> None:
        self.key = f"room-{next(_numbers)}"
        self.owner = person(**user)
        self.session = log_in(self.owner)

    def client(self, session: str | None = None) -> Client:
        return Client(self.key, self.session if session is None else session)

    def handle(self, **options: Any) -> ThreadHandle:
        return ThreadHandle(self.key, agent=puppet(), **{"actor": self.owner, **options})


def person(**values: Any) -> Any:
    """A user."""
    return get_user_model().objects.create_user(f"person-{next(_numbers)}", password="x", **values)


@pytest.fixture
def room(committed: None) -> Iterator[Room]:
    """A room whose thread exists."""
    register(puppet())
    made = Room()
    begin(made)
    yield made
    unregister("puppet")


def begin(room: Room) -> None:
    """Have the thread exist, with nothing said in it."""
    from criogen_threads.models import Thread

    Thread.objects.create(key=room.key, agent="puppet", owner=room.owner)
