"""One thread, many turns: criogen_threads beside a raw-SQL floor and LangGraph's PostgresSaver.

    python -m benchmarks.turns [--turns 1000] [--runs 3] [--json FILE] [--check]

Everybody takes each turn, one after the other, so that whatever else the machine does hits all alike.
``DATABASE_URL`` names a server that may get a few databases for the time being; without it one is started.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import figures as made
from benchmarks.blocking import longest_block
from benchmarks.databases import Databases, server
from benchmarks.workload import conversation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.contestant import Contestant, Taken
    from benchmarks.figures import Figures
    from benchmarks.ours import Ours
    from benchmarks.workload import Spoken

WARMING = 30  # turns of another conversation before the first that is measured
TIMES = 15  # of each reading
BLOCK = 5  # turns that one takes before the next has its go
PREPARE_AFTER = 5  # psycopg's own default; Django's is never, for poolers that cannot
FLAGS = ("durable", "unprepared", "no_langgraph")
DATABASES = {
    made.OURS: "ours", made.FLOOR: "floor", made.PIPED: "piped", made.FULL: "full", made.DELTA: "delta",
    made.POOLED: "pooled",
}  # fmt: skip


def main() -> int:
    options = _options()
    runs = [_run_apart(options) for _ in range(options.runs)] if options.runs > 1 else [_run(options)]
    figures = made.over_runs(runs)
    names = [name for name in DATABASES if name in figures["saves, end, median ms"]]
    about = _about(options)
    print(", ".join(f"{key}: {value}" for key, value in about.items()))
    print(made.table(figures, names))
    if made.FULL not in names:
        print("Without LangGraph: pip install -e '.[benchmarks]'")
    verdicts = made.verdicts(figures, options.turns)
    print("\n" + "\n".join(words for words, _ in verdicts))
    if options.json:
        found = {"about": about, "figures": figures, "met": all(met for _, met in verdicts)}
        options.json.write_text(json.dumps(found, indent=2, ensure_ascii=False))
    return int(options.check and not all(met for _, met in verdicts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=200, help="turns of the conversation, at least 20")
    parser.add_argument("--runs", type=int, default=3, help="whole runs; the figures are their medians")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a budget is missed")
    parser.add_argument("--durable", action="store_true", help="the own server waits for its disk")
    parser.add_argument(
        "--unprepared", action="store_true", help="no prepared statements, neither ours nor the floor's"
    )
    parser.add_argument("--no-langgraph", action="store_true", help="leave LangGraph out, which takes the longest")
    return parser.parse_args()


def _about(options: argparse.Namespace) -> dict[str, Any]:
    size = sum(each.characters for each in conversation(options.turns))
    about = {"turns": options.turns, "kB of text": round(size / 1000), "runs": options.runs}
    about["durable"] = "yes" if options.durable else "no"
    about["prepared"] = "no" if options.unprepared else "yes"
    for package in ("django", "psycopg", "langgraph", "langgraph-checkpoint-postgres"):
        with suppress(PackageNotFoundError):
            about[package] = version(package)
    return {**about, "python": platform.python_version()}


def _run_apart(options: argparse.Namespace) -> Figures:
    """One run in a process of its own."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "run.json")
        command = [sys.executable, __file__, "--runs=1", f"--turns={options.turns}", f"--json={file}"]
        flags = [f"--{name.replace('_', '-')}" for name in FLAGS if getattr(options, name)]
        subprocess.run([*command, *flags], check=True, stdout=subprocess.DEVNULL)
        figures: Figures = json.loads(file.read_text())["figures"]
        return figures


def _run(options: argparse.Namespace) -> Figures:
    spoken = conversation(options.turns)
    threshold = None if options.unprepared else PREPARE_AFTER
    with server(durable=options.durable) as databases:
        _set_django_up(databases, threshold)
        contestants = _contestants(databases, threshold, peers=not options.no_langgraph)
        return asyncio.run(_measure_and_close(contestants, databases, spoken))


def _set_django_up(databases: Databases, threshold: int | None) -> None:
    """A small site on a database of its own, which then is the floor's template."""
    import django
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    from project.database import database

    databases.make("ours")
    apps = ["django.contrib.contenttypes", "django.contrib.auth", "criogen_threads"]
    entry = {**database(databases.url), "NAME": databases.full_name("ours")}
    entry["OPTIONS"]["prepare_threshold"] = threshold
    settings.configure(INSTALLED_APPS=apps, DATABASES={"default": entry}, USE_TZ=True, SECRET_KEY="benchmark")
    django.setup()
    call_command("migrate", verbosity=0)
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # a template must have no visitors


def _contestants(databases: Databases, threshold: int | None, *, peers: bool) -> list[Contestant]:
    from benchmarks.floor import Floor
    from benchmarks.ours import Ours

    found: list[Contestant] = [
        Floor(made.FLOOR, databases.make("floor", "ours"), threshold, piped=False),
        Floor(made.PIPED, databases.make("piped", "ours"), threshold, piped=True),
        Ours(made.OURS),
    ]
    with suppress(ModuleNotFoundError):
        if not peers:
            return found
        from benchmarks import graphs

        found.append(graphs.Graph(made.FULL, databases.make("full"), graphs.Full))
        found.append(graphs.Graph(made.DELTA, databases.make("delta"), graphs.Delta))
        found.append(graphs.PooledGraph(made.POOLED, databases.make("pooled"), graphs.Delta))
    return found


async def _measure_and_close(contestants: list[Contestant], databases: Databases, spoken: list[Spoken]) -> Figures:
    try:
        return await _measure(contestants, databases, spoken)
    finally:
        for contestant in contestants:
            await contestant.close()


async def _measure(contestants: list[Contestant], databases: Databases, spoken: list[Spoken]) -> Figures:
    gc.collect()
    gc.freeze()  # nobody pays for what the others have imported
    cold = await _warm_up(contestants, databases)
    taken, logged = await _take_turns(contestants, databases, spoken)
    figures = made.of_turns(taken, cold)
    for name, sizes in logged.items():
        made.put(figures, "log (WAL), start, bytes a turn", name, median(sizes[: made.EDGE // BLOCK]) / BLOCK)
        made.put(figures, "log (WAL), end, bytes a turn", name, median(sizes[-made.EDGE // BLOCK :]) / BLOCK)
    rows: dict[str, dict[str, int]] = {}
    for contestant in contestants:
        name = contestant.name
        size, rows[name] = databases.size(DATABASES[name])
        made.put(figures, "tables and indexes, kB", name, size / 1000)
        made.put(figures, "rows", name, sum(rows[name].values()))
        made.put(figures, "messages(), ms", name, await _milliseconds(contestant.read, 4 * len(spoken)))
        made.put(figures, "history(20), ms", name, await _milliseconds(contestant.history, 20))
        if name == made.OURS:
            await _ours_alone(cast("Ours", contestant), spoken, figures)
    if not rows[made.OURS] == rows[made.FLOOR] == rows[made.PIPED]:
        raise RuntimeError(f"the floor does not write the same rows: {rows}")
    return figures


async def _warm_up(contestants: list[Contestant], databases: Databases) -> dict[str, list[Taken]]:
    """The first turns of a process, whose connections have prepared nothing yet; nothing is left of them."""
    for contestant in contestants:
        await contestant.begin("warm-up")
    taken, _ = await _take_turns(contestants, databases, conversation(WARMING))
    for contestant in contestants:
        databases.empty(DATABASES[contestant.name])
        await contestant.begin("bench")
    return taken


async def _take_turns(
    contestants: list[Contestant], databases: Databases, spoken: list[Spoken]
) -> tuple[dict[str, list[Taken]], dict[str, list[int]]]:
    """Each few turns by everybody, each time in another order; and for each few what the server logged."""
    taken: dict[str, list[Taken]] = {contestant.name: [] for contestant in contestants}
    logged: dict[str, list[int]] = {contestant.name: [] for contestant in contestants}
    for at in range(0, len(spoken), BLOCK):
        first = at // BLOCK % len(contestants)
        for contestant in contestants[first:] + contestants[:first]:
            gc.collect()  # nobody pays for what another left behind
            before = databases.logged()
            taken[contestant.name] += [await contestant.turn(each) for each in spoken[at : at + BLOCK]]
            logged[contestant.name].append(databases.logged() - before)
    return taken, logged


async def _milliseconds(read: Callable[[], Awaitable[int]], expected: int) -> float:
    """The median of several readings."""
    times = []
    for _ in range(TIMES):
        started = time.perf_counter()
        count = await read()
        times.append((time.perf_counter() - started) * 1000)
        if count != expected:
            raise RuntimeError(f"{count} rows were read, not {expected}")
    return median(times)


async def _ours_alone(ours: Ours, spoken: list[Spoken], figures: Figures) -> None:
    """What is asked of nobody else."""
    per_message = median([await ours.read_by_the_loop() for _ in range(TIMES)])
    made.put(figures, "read, µs a message", ours.name, per_message)
    with longest_block() as longest:
        for each in spoken[:20]:
            await ours.turn(each)
    made.put(figures, "longest work on the loop, ms", ours.name, longest.work)
    made.put(figures, "a ticking task was late by, ms", ours.name, longest.lateness)
    statements, commits = await ours.plain_turns(spoken[:5])
    made.put(figures, "statements, plain turn", ours.name, statements)
    made.put(figures, "commits, plain turn", ours.name, commits)


if __name__ == "__main__":
    raise SystemExit(main())
