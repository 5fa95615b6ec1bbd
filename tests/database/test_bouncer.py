"""Behind PgBouncer in transaction mode: a session is another one after each commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from criogen_threads.agents import Tool
from criogen_threads.engine import lease
from criogen_threads.engine.journal.statements import database
from criogen_threads.models import Thread
from project import database as site
from project.desk.models import CallBack
from tests.database.bouncer import PROGRAM, PgBouncer
from tests.database.conftest import POOL, reached_by
from tests.database.test_lost_commits import a_life
from tests.database.turn import Turn
from tests.support import an_agent, call, in_db, is_valid, results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker

    from tests.database.conftest import Breakable

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed on this machine")

TURNS = 30


@pytest.fixture(scope="module")
def one_bouncer(one_server: Breakable) -> Iterator[PgBouncer]:
    with PgBouncer(one_server) as bouncer:
        yield bouncer


@pytest.fixture
def bouncer(server: Breakable, one_bouncer: PgBouncer, django_db_blocker: DjangoDbBlocker) -> Iterator[PgBouncer]:
    """The database through a bouncer with two connections, as a site is told to name it."""
    entry = site.database(one_bouncer.url)
    options = {**entry["OPTIONS"], "pool": {**entry["OPTIONS"]["pool"], **POOL}, "prepare_threshold": None}
    with (
        django_db_blocker.unblock(),
        reached_by(HOST=entry["HOST"], PORT=entry["PORT"], OPTIONS=options, DISABLE_SERVER_SIDE_CURSORS=True),
    ):
        yield one_bouncer


async def test_c2_a_life_behind_a_bouncer_is_like_any_other(server: Breakable, bouncer: PgBouncer) -> None:
    """Asked, approved, submitted, rewound, retried, described, deleted."""
    await in_db(lease.current().ensure)
    lived = await a_life("t")
    assert lived["paid"] == [1]
    assert lived == await a_life("t")
    assert await in_db(_host) == str(bouncer.folder)


def _host() -> Any:
    return connections[database()].settings_dict["HOST"]


async def test_f42_f43_turns_at_once_share_two_connections(bouncer: PgBouncer) -> None:
    def book() -> str:
        CallBack.objects.create(phone="1", when="now")
        return "booked"

    def look() -> int:
        return CallBack.objects.count() and 1

    agent = an_agent([call("book")], [call("look")], "Done", tools=[Tool(book, atomic=True), Tool(look)])
    replies = await asyncio.gather(*(agent.thread(f"t{number}").send("Go") for number in range(TURNS)))
    assert {reply.text for reply in replies} == {"Done"}
    assert all(is_valid(reply.messages) and results(reply.messages) == ["booked", 1] for reply in replies)
    assert await in_db(CallBack.objects.count) == TURNS
    assert await in_db(lambda: set(Thread.objects.values_list("status", "version", "holder"))) == {("idle", 6, None)}


async def test_nothing_of_a_save_is_left_in_the_session_that_the_next_client_gets(bouncer: PgBouncer) -> None:
    turn = Turn()
    await turn.chat.send("Hello")
    await turn.went_well()
    assert await in_db(_limits) == {"0"}


def _limits() -> set[str]:
    with connections[database()].cursor() as cursor:
        cursor.execute("SELECT setting FROM pg_settings WHERE name IN ('transaction_timeout', %s, %s)",
                       ["idle_in_transaction_session_timeout", "lock_timeout"])  # fmt: skip
        return {setting for (setting,) in cursor.fetchall()}


@pytest.mark.parametrize("place", ["looking", "booking"])
async def test_f42_the_server_behind_it_crashes_within_a_turn(
    server: Breakable, bouncer: PgBouncer, place: str
) -> None:
    turn = Turn(**{place: lambda: server.restart("immediate")})
    assert (await turn.chat.send("Hello")).text == "Done"
    assert turn.looked == 1
    await turn.went_well()
