"""A database that goes away in the middle of a turn: nothing lost, nothing half-written, nothing twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from criogen_threads.models import Run, Thread, Worker
from tests.database.turn import Saboteur, Turn
from tests.support import in_db, refused

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from tests.database.conftest import Breakable

PLACES = ["asked", "looking", "booking", "asked_again"]
COMMITS = 6  # the worker, input, answer, two results, answer


async def test_f42_connections_that_die_before_a_turn_are_not_noticed(server: Breakable) -> None:
    turn = Turn()
    await in_db(Thread.objects.count)
    server.terminate()
    assert (await turn.chat.send("Hello")).text == "Done"
    await turn.went_well()


@pytest.mark.parametrize("place", PLACES)
async def test_f42_connections_that_die_within_a_turn_are_not_noticed(server: Breakable, place: str) -> None:
    turn = Turn(**{place: server.terminate})
    assert (await turn.chat.send("Hello")).text == "Done"
    assert turn.looked == 1
    await turn.went_well()


@pytest.mark.parametrize("place", PLACES)
async def test_a_restart_within_a_turn_is_not_noticed(server: Breakable, place: str) -> None:
    turn = Turn(**{place: server.restart})
    assert (await turn.chat.send("Hello")).text == "Done"
    assert turn.looked == 1
    await turn.went_well()


async def test_the_commits_of_a_turn(server: Breakable, monkeypatch: pytest.MonkeyPatch) -> None:
    saboteur = Saboteur(monkeypatch, server)
    await Turn().chat.send("Hello")
    assert saboteur.commits == COMMITS


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("which", range(1, COMMITS + 1))
async def test_f04_a_commit_without_an_answer_is_written_once(
    server: Breakable, monkeypatch: pytest.MonkeyPatch, which: int, when: str
) -> None:
    saboteur = Saboteur(monkeypatch, server, which, when)
    turn = Turn()
    assert (await turn.chat.send("Hello")).text == "Done"
    assert saboteur.has_broken
    assert turn.looked == 1
    assert turn.finished == ["completed"]
    await turn.went_well()


async def test_a_database_that_is_away_refuses_a_turn_with_a_code(server: Breakable, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"DATABASE_RETRY_SECONDS": 0.5}
    turn = Turn()
    server.stop()
    for ask in (turn.chat.send, turn.chat.submit):
        with refused("database_unavailable"):
            await ask("Hello")
    for read in (turn.chat.messages, turn.chat.history, turn.chat.runs, turn.chat.get_events, turn.chat.retry):
        with refused("database_unavailable"):
            await read()
    server.start()
    assert await in_db(Run.objects.count) == 0
    assert (await turn.chat.send("Hello")).text == "Done"
    await turn.went_well()


@pytest.mark.parametrize("place", PLACES)
async def test_p18_an_outage_that_is_too_long_ends_the_call_and_retry_goes_on(
    server: Breakable, settings: SettingsWrapper, place: str
) -> None:
    """The beat lets go of the thread once the database is back, though this worker is alive."""
    settings.CRIOGEN_THREADS |= {"DATABASE_RETRY_SECONDS": 0.5, "HEARTBEAT_SECONDS": 0.5}
    turn = Turn(**{place: server.stop})
    with refused("database_unavailable"):
        await turn.chat.send("Hello")
    server.start()
    settings.CRIOGEN_THREADS |= {"DATABASE_RETRY_SECONDS": 10}
    with refused("thread_interrupted"):
        await turn.chat.send("Are you there?", timeout=10)
    assert (await turn.chat.retry()).text == "Done"
    await turn.went_well()
    assert await in_db(Worker.objects.count) == 1  # the same one


async def test_an_outage_longer_than_the_lease_ends_the_run_and_retry_goes_on(
    server: Breakable, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS |= {"LEASE_SECONDS": 4, "HEARTBEAT_SECONDS": 3}

    async def away() -> None:
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(60)

    turn = Turn(asked_again=away)
    with refused("lease_lost"):
        await turn.chat.send("Hello")
    server.start()
    settings.CRIOGEN_THREADS |= {"LEASE_SECONDS": 30}
    assert (await turn.chat.retry()).text == "Done"
    assert turn.looked == 1
    await turn.went_well()
