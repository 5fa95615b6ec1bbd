"""PostgreSQL before 17, which has no ``transaction_timeout``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from django.db import connections

from criogen_threads.engine import lease
from criogen_threads.engine.journal import pen
from criogen_threads.engine.journal.statements import Session
from tests.database.conftest import OlderPostgreSQL
from tests.database.phases import Errand, Phases
from tests.support import in_db

if TYPE_CHECKING:
    from collections.abc import Callable

SERVER = OlderPostgreSQL
LIMIT = 0.3  # seconds that a save may stand still
LOCK = "SELECT id FROM criogen_threads_thread FOR UPDATE"


async def test_f42_a_save_that_stands_still_is_ended_by_the_server_whatever_its_phase(
    server: OlderPostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stops below the thread's lock; the others get it all the same, and the save is written anew."""
    monkeypatch.setattr(pen, "LOCKED_FOR", f"{LIMIT * 1000:.0f}ms")
    await in_db(lease.current().ensure)
    taken: list[str] = []

    def stand_still() -> None:
        with psycopg.connect(f"host={server.folder} user=postgres dbname=postgres") as other:
            assert other.info.server_version < 170000
            other.execute("SET lock_timeout = '20s'")
            other.execute(LOCK)
        taken.append("others have it")

    phases = await _errand("calm")
    commits = [phase for phase in phases if phase.startswith("before a commit")]
    assert len(commits) >= 10
    for number, phase in enumerate(commits):
        await _errand(f"still-{number}", phase, stand_still)
    assert len(taken) == len(commits)


async def test_f42_nothing_travels_together_there(server: OlderPostgreSQL) -> None:
    """Its limit is for idle transactions, and rests inside a pipeline and after one: nothing would end that save."""

    def status() -> int:
        session = Session(connections[server.alias])
        with session.transaction(), session.pipelined():
            return int(session.connection.connection.pgconn.pipeline_status)

    assert await in_db(status) == 0


async def _errand(key: str, at: str | None = None, strike: Callable[[], None] | None = None) -> list[str]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        phases = Phases(monkeypatch, at, strike)
        await Errand(phases, key).run()
    return phases.seen
