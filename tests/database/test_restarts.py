"""The server crashes and comes back, in every phase of a turn: nobody notices."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.engine import lease
from tests.database.phases import NAMES, Errand, Phases
from tests.database.test_lost_commits import a_life
from tests.support import in_db

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.database.conftest import Breakable

pytestmark = pytest.mark.long


async def test_f42_f04_a_crash_of_the_server_in_any_phase_of_a_turn_is_not_noticed(
    server: Breakable, record_property: Callable[[str, object], None]
) -> None:
    """Every process of it is ended at once, as a power cut does, and its log is played back."""
    await in_db(lease.current().ensure)  # its commit is none of the turn's
    phases = await _errand("calm")
    record_property("phases", len(phases))
    print(f"{len(phases)} phases")  # shown with -rP or -s
    assert len(phases) >= 25
    assert {f"in {name} #1" for name in NAMES} | {"in the model #2"} <= set(phases)
    failures = []
    for number, phase in enumerate(phases):
        try:
            await _errand(f"struck-{number}", phase, lambda: server.restart("immediate"))
        except Exception:
            failures.append(f"{phase}:\n{traceback.format_exc(limit=-2)}")
    assert not failures, f"{len(failures)} of {len(phases)} phases:\n\n" + "\n".join(failures)


async def test_f42_f04_nor_right_behind_any_commit_of_a_life(server: Breakable) -> None:
    """Asked, approved, submitted, rewound, retried, described, deleted: what follows a commit is repeated alone."""
    await in_db(lease.current().ensure)
    phases, good = await _life()
    phases = [phase for phase in phases if phase.startswith("after a commit")]
    failures = []
    for phase in phases:
        try:
            _, lived = await _life(phase, lambda: server.restart("immediate"))
            assert lived == good
        except Exception:
            failures.append(f"{phase}:\n{traceback.format_exc(limit=-2)}")
    assert not failures, f"{len(failures)} of {len(phases)} phases:\n\n" + "\n".join(failures)


async def _life(at: str | None = None, strike: Callable[[], None] | None = None) -> tuple[list[str], Any]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        phases = Phases(monkeypatch, at, strike)
        lived = await a_life("t")
    assert at is None or at in phases.seen, "it did not come so far"
    return phases.seen, lived


async def _errand(key: str, at: str | None = None, strike: Callable[[], None] | None = None) -> list[str]:
    """The phases of an errand; at one of them something happens."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        phases = Phases(monkeypatch, at, strike)
        await Errand(phases, key).run()
    assert at is None or at in phases.seen, "it did not come so far"
    return phases.seen
