"""A turn killed before and after every commit and inside every tool, and recovered by a new process.

``CRIOGEN_LONG=1`` adds scenarios of agents that ask each other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.crash.checks import left_of
from tests.crash.matrix import Case, Matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.crash.checks import Snapshot

LONG = bool(os.environ.get("CRIOGEN_LONG"))

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def matrix(django_db_setup: None) -> Iterator[Matrix]:
    with Matrix() as matrix:
        yield matrix


def crash_everywhere(
    matrix: Matrix,
    case: Case,
    record: Callable[[str, object], None],
    also: Callable[[str, Snapshot], None] | None = None,
) -> list[str]:
    points = matrix.points(case)
    record("crash points", len(points))
    print(f"{case.scenario}, {case.on_crash}: {len(points)} points")  # shown with -rP or -s
    matrix.missed.clear()
    failures = matrix.failures(case, points, also)
    assert not failures, f"{len(failures)} of {len(points)} points:\n\n" + "\n".join(failures)
    assert len(matrix.missed) <= len(points) // 10, f"nobody came by {matrix.missed}"
    return points


@pytest.mark.parametrize("on_crash", ["rerun", "ask", "report"])
def test_p16_a_turn_survives_a_crash_at_every_point(
    matrix: Matrix, on_crash: str, record_property: Callable[[str, object], None]
) -> None:
    """P6, P15, P16, F9, F10, F31: nothing lost, nothing doubled, finished calls never run again."""
    points = crash_everywhere(matrix, Case("turn", on_crash), record_property)
    assert len(points) >= 30
    for name in ("plain", "slow", "book", "pay"):
        assert f"in {name}, before its effect #1" in points
        assert f"in {name}, after its effect #1" in points


def test_f16_a_submitted_turn_survives_a_crash_at_every_point(
    matrix: Matrix, record_property: Callable[[str, object], None]
) -> None:
    """Queued, dispatched, suspended, answered on record only, resumed: ``recover`` in a new process takes it up."""
    points = crash_everywhere(matrix, Case("submitted", alone=True), record_property)
    assert len(points) >= 30


@pytest.mark.parametrize("to", ["a step", "a suspension"])
def test_p33_a_rewind_survives_a_crash_at_every_point(
    matrix: Matrix, to: str, record_property: Callable[[str, object], None]
) -> None:
    """Rewound once, not twice; the run that goes on from there is as safe as any."""
    points = crash_everywhere(matrix, Case(f"rewound to {to}"), record_property)
    assert len(points) >= 15


@pytest.mark.parametrize(
    "scenario",
    [
        "turn",
        "rewound to a suspension",
        *(["submitted", "rewound to a step"] if LONG else []),
    ],
)
def test_b17_agents_that_ask_each_other_survive_a_crash_at_every_point(
    matrix: Matrix, scenario: str, record_property: Callable[[str, object], None]
) -> None:
    """Two levels deep, with an approval in the deepest: every run once, every result once, one tree of events."""
    case = Case(scenario, alone=scenario == "submitted", agency=True)
    points = crash_everywhere(matrix, case, record_property)
    assert len(points) >= 30


def test_p37_a_delete_survives_a_crash_at_every_point(
    matrix: Matrix, record_property: Callable[[str, object], None]
) -> None:
    """All rows or none; the key begins anew (F35)."""

    def all_or_nothing(key: str, snapshot: Snapshot) -> None:
        epoch = (matrix.folder / key / "epoch").read_text()
        counts = left_of(epoch)
        assert (snapshot.epoch is not None and str(snapshot.epoch) == epoch) == all(counts.values())
        assert all(counts.values()) or not any(counts.values()), counts

    points = crash_everywhere(matrix, Case("deleted"), record_property, all_or_nothing)
    assert len(points) >= 30


def test_p15_a_crash_that_is_found_by_time_alone(matrix: Matrix) -> None:
    """Nobody touches the dead process's row: its lease of two seconds runs out by itself."""
    case = Case("turn", "report", waits=2.0)
    points = matrix.points(case)
    tools = [point for point in points if point.startswith("in ")]
    failures = matrix.failures(case, [*tools, points[len(points) // 3], points[-1]])
    assert not failures, "\n".join(failures)
