"""The benchmark runs and measures what it says; its timings are nobody's test."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import connection

from benchmarks.console import Asked
from benchmarks.contestant import Taken
from benchmarks.figures import FLOOR, FULL, OURS, PIPED, of_turns, over_runs, verdicts

TURNS = Path(__file__).resolve().parent.parent / "benchmarks" / "turns.py"


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="the benchmark is PostgreSQL's")
def test_a_short_run_writes_the_same_rows_as_the_floor_and_counts_what_the_design_promises(tmp_path: Path) -> None:
    file = tmp_path / "turns.json"
    command = [sys.executable, TURNS, "--turns=20", "--runs=1", "--no-langgraph", f"--json={file}"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr  # another number of rows than the floor's is an error
    figures = json.loads(file.read_text())["figures"]
    assert figures["statements, plain turn"][OURS] <= 18
    assert figures["commits, plain turn"][OURS] == 2
    assert figures["commits a turn"][OURS] == 4
    assert f"saves / floor, end: {figures['saves / floor, end'][OURS]:.2f}" in ended.stdout


def _turns(saves: float, whole: float, end: float = 1.0) -> list[Taken]:
    return [Taken(saves, saves, whole, commits=4) for _ in range(20)] + [
        Taken(saves * end, saves, whole * end, commits=4) for _ in range(20)
    ]


def test_ratios_and_growth_are_those_of_the_medians() -> None:
    figures = of_turns(
        {
            OURS: _turns(0.006, 0.012, 2),
            FLOOR: _turns(0.003, 0.003),
            PIPED: _turns(0.002, 0.002),
            FULL: _turns(0.01, 0.02),
        },
        {name: _turns(0.1, 0.2) for name in (OURS, FLOOR, PIPED, FULL)},
    )
    assert figures["whole turn, new process, median ms"] == dict.fromkeys((OURS, FLOOR, PIPED, FULL), 200)
    assert figures["saves / floor, start"][OURS] == pytest.approx(2)
    assert figures["saves / floor, piped, end"][OURS] == pytest.approx(6)
    assert figures["growth of saves"][OURS] == pytest.approx(2)
    assert figures["growth of saves / the floor's"][OURS] == pytest.approx(2)
    assert figures["saves / best LangGraph, worst 20 turns"][OURS] == pytest.approx(1.2)
    assert figures["turn / best LangGraph, worst 20 turns"][OURS] == pytest.approx(1.2)


def test_a_budget_is_met_up_to_its_number() -> None:
    def of(value: float) -> list[tuple[str, bool]]:
        return verdicts({"history(20), ms": {OURS: value, FLOOR: 99.0}}, 200)

    assert of(5.0) == [("met    history(20), ms: 5, at most 5", True)]
    assert of(5.01) == [("MISSED history(20), ms: 5.01, at most 5", False)]


def test_several_runs_count_by_their_medians() -> None:
    runs = [{"rows": {OURS: value}} for value in (1.0, 9.0, 2.0)]
    assert over_runs(runs) == {"rows": {OURS: 2.0}}


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="the benchmark is PostgreSQL's")
def test_the_console_s_benchmark_asks_for_every_page_and_says_what_it_found(tmp_path: Path) -> None:
    file = tmp_path / "console.json"
    command = [sys.executable, TURNS.parent / "console.py", "--threads=1000", f"--json={file}"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(file.read_text())
    assert found["rows"]["criogen_threads_checkpoint"] == pytest.approx(20_000, rel=0.1)
    names = [each["name"] for each in found["figures"]]
    for name in ("boss: index", "boss: long: rewind", "approver: threads q=Refund", "boss: an approval, waiting: live"):
        assert name in names
    pages = [each for each in found["figures"] if each["met"] is not None]
    assert all(0 < each["queries"] <= 25 for each in pages)
    assert {each["name"].rpartition(".")[0] for each in found["figures"] if each not in pages} == {
        "boss: long: export", "boss: user-307: export",
    }  # fmt: skip


def test_a_page_of_the_console_is_held_against_its_work_and_a_file_against_nothing() -> None:
    page = Asked("boss: index", milliseconds=900, first=900, work=299, queries=25, kilobytes=1)
    assert page.met
    for over in ({"work": 301}, {"queries": 26}, {"work": 0}):
        assert replace(page, **over).met is False
    assert replace(page, name="boss: long: export.json", work=5000).met is None
