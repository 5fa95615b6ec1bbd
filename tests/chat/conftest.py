"""A site with the chat, in a real daphne, and visitors with real browsers.

The web process keeps its worker for as long as it lives, so the database is not emptied after each test: keys and names
are new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from criogen_threads.agents import register, unregister
from tests.browsers import aside
from tests.chat.support import Visitor
from tests.flush import flush, stop_worker
from tests.streaming.puppet import puppet
from tests.streaming.servers import Web, web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import DjangoDbBlocker


@pytest.fixture(scope="module")
def committed(
    django_db_setup: None, chromium: Any, django_db_blocker: DjangoDbBlocker, keeps_rows: None
) -> Iterator[None]:
    """The database, open to other processes, for a whole module."""
    with django_db_blocker.unblock():
        aside(flush, connection)
        register(puppet())
        yield
        unregister("puppet")
        aside(stop_worker)
        aside(flush, connection)
        connection.close()


@pytest.fixture(scope="module")
def site(committed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web(tmp_path_factory.mktemp("chat"), project="tests.chat", VISITOR_AGENTS=["puppet"]) as [process]:
        yield process


@pytest.fixture
def visit(chromium: Any, site: Web) -> Iterator[Callable[..., Visitor]]:
    """Somebody new at a browser, signed in."""
    made: list[Visitor] = []

    def begin(user: Any = None, **options: Any) -> Visitor:
        made.append(Visitor(chromium, site, user, **options))
        return made[-1]

    yield begin
    assert site.process.poll() is None, "the web process is gone:\n" + site.log.read_text()[-3000:]
    complaints = [each.complaints for each in made]
    for each in made:
        each.context.close()
    assert not any(complaints), complaints
