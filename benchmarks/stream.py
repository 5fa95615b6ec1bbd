"""The feed under load: 200 sockets on one web process, 20 turns in another.

    python -m benchmarks.stream [--sockets 200] [--runs 3] [--json FILE] [--check]

It starts a PostgreSQL, a Valkey and two daphnes of its own. Printed are the delays from the moment at which the model
gave a piece until its last byte was with a client on the same machine, beside bare messages through the channel layer
in the same seconds, and the processor time of both web processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import figures as made
from benchmarks.listener import Listener
from tests.services import PostgreSQL, Valkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.figures import Figures

ALONE, TOGETHER = "one turn at a time", "all turns at once"
FEW = 5  # pieces of a turn that is watched alone
APART = 0.1  # seconds between them: none waits for another
ECHO_PAUSE = 0.05
PATIENCE = 60
BUDGETS = (made.Budget("a piece, p95 ms", 50, TOGETHER), made.Budget("sockets without the whole text", 0, TOGETHER))


def main() -> int:
    options = _options()
    runs = [_run_apart(options) for _ in range(options.runs)] if options.runs > 1 else [_run(options)]
    figures = made.over_runs(runs)
    about = {**vars(options), "json": None, "python": platform.python_version()}
    print(", ".join(f"{name}: {value}" for name, value in about.items() if value))
    print(made.table(figures, [ALONE, TOGETHER]))
    verdicts = [_verdict(budget, figures[budget.figure][budget.contestant]) for budget in BUDGETS]
    print("\n" + "\n".join(words for words, _ in verdicts))
    met = all(met for _, met in verdicts)
    if options.json:
        options.json.write_text(json.dumps({"about": about, "figures": figures, "met": met}, indent=2))
    return int(options.check and not met)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sockets", type=int, default=200, help="that watch, on one process")
    parser.add_argument("--turns", type=int, default=20, help="at once, on the other process")
    parser.add_argument("--pieces", type=int, default=250, help="of each answer")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds before each piece")
    parser.add_argument("--runs", type=int, default=1, help="whole runs; the figures are their medians")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a budget is missed")
    return parser.parse_args()


def _verdict(budget: made.Budget, value: float) -> tuple[str, bool]:
    met = value <= budget.most
    words = f"{budget.figure}, {budget.contestant}: {value:g}, at most {budget.most:g}"
    return f"{'met   ' if met else 'MISSED'} {words}", met


# One run -------------------------------------------------------------------------------------------------------------


def _run_apart(options: argparse.Namespace) -> Figures:
    """One run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.json")
        given = [f"--{name}={getattr(options, name)}" for name in ("sockets", "turns", "pieces", "pause")]
        command = [sys.executable, "-m", "benchmarks.stream", "--runs=1", f"--json={file}", *given]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        figures: Figures = json.loads(file.read_text())["figures"]
        return figures


def _run(options: argparse.Namespace) -> Figures:
    with PostgreSQL() as postgres, Valkey() as valkey, tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "DATABASE_URL": postgres.url,
            "DJANGO_SETTINGS_MODULE": "tests.streaming.settings",
            "CRIOGEN_TEST_LAYER": valkey.url,
        }
        return _measured(options, Path(folder), valkey.url)


def _measured(options: argparse.Namespace, folder: Path, layer: str) -> Figures:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from tests.streaming.conftest import Room, begin
    from tests.streaming.servers import web

    call_command("migrate", verbosity=0)
    rooms = [Room() for _ in range(options.turns)]
    for room in rooms:
        begin(room)
    connection.close()
    with web(folder, 2, layer=layer, LEASE_SECONDS=30, HEARTBEAT_SECONDS=10) as (watching, running):
        return asyncio.run(_measure(options, rooms, watching, running))


@dataclass
class Phase:
    """What was measured in some seconds: delays in seconds, processor time in seconds."""

    first: list[float] = field(default_factory=list)
    newest: list[float] = field(default_factory=list)  # since the last piece of each frame
    pieces: list[float] = field(default_factory=list)  # since each piece, whatever it waited for
    echoes: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    broken: int = 0
    took: float = 0.0


async def _measure(options: argparse.Namespace, rooms: Sequence[Any], watching: Any, running: Any) -> Figures:
    places = [rooms[number % options.turns] for number in range(options.sockets)]
    watchers = [await Listener.on(watching, room.key, room.session) for room in places]
    senders = [await Listener.on(running, room.key, room.session) for room in rooms]
    for each in watchers:
        each.begin(b'"subscribed"')
        each.say(type="subscribe")
    await asyncio.gather(*(each.end() for each in watchers))
    figures: Figures = {}
    alone = [watchers[number :: options.turns] for number in range(options.turns)]
    for name, groups, plan in (
        (ALONE, list(zip(senders, alone, strict=True)), {"clock": FEW, "delay": APART}),
        (TOGETHER, [(senders, watchers)], {"clock": options.pieces, "delay": options.pause}),
    ):
        async with _phase(watching, running) as phase:
            for some, ears in groups:
                await _turns(phase, some if isinstance(some, list) else [some], ears, plan)
        _put(figures, name, phase)
    for each in (*watchers, *senders):
        each.close()
    return figures


@asynccontextmanager
async def _phase(*processes: Any) -> AsyncIterator[Phase]:
    phase = Phase()
    before = [_processor_seconds(each.process.pid) for each in processes]
    echo = asyncio.create_task(_echo(phase.echoes))
    began = time.monotonic()
    yield phase
    phase.took = time.monotonic() - began
    phase.used = [_processor_seconds(each.process.pid) - at for each, at in zip(processes, before, strict=True)]
    echo.cancel()
    await asyncio.wait({echo})


async def _turns(phase: Phase, senders: Sequence[Listener], ears: Sequence[Listener], plan: dict[str, Any]) -> None:
    """Have each sender begin a turn, and its listeners hear all of it."""
    for each in ears:
        each.begin(b"RUN_FINISHED")
    for sender in senders:
        sender.say(type="send", text=json.dumps(plan))
    async with asyncio.timeout(plan["clock"] * plan["delay"] * 10 + PATIENCE):
        await asyncio.gather(*(each.end() for each in ears))
    for each in ears:
        _take(phase, each, plan["clock"])


def _take(phase: Phase, listener: Listener, expected: int) -> None:
    ticks = 0
    for came, frame in listener.heard():
        events = frame.get("events", ())
        if events and events[0].get("role") == "user":
            continue
        for event in events:
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                given = [came - float(line) for line in event["delta"].split()]
                phase.first += given[:1] if not ticks else []
                phase.newest.append(given[-1])
                phase.pieces += given
                ticks += len(given)
    phase.broken += ticks != expected


async def _echo(delays: list[float]) -> None:
    """Bare messages through the layer and back, while the rest goes on."""
    from channels.layers import get_channel_layer

    layer: Any = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add("criogen.echo", channel)
    try:
        while True:
            await layer.group_send("criogen.echo", {"type": "echo", "at": time.time()})
            message = await layer.receive(channel)
            delays.append(time.time() - message["at"])
            await asyncio.sleep(ECHO_PAUSE)
    finally:
        await layer.flush()


def _processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _put(figures: Figures, name: str, phase: Phase) -> None:
    for what, delays in (
        ("first token", phase.first), ("the newest piece of a frame", phase.newest), ("a piece", phase.pieces),
        ("bare echo", phase.echoes),
    ):  # fmt: skip
        made.put(figures, f"{what}, median ms", name, round(median(delays) * 1000, 2))
        made.put(figures, f"{what}, p95 ms", name, round(made.p95(delays) * 1000, 2))
    made.put(figures, "sockets without the whole text", name, phase.broken)
    made.put(figures, "frames with text", name, len(phase.newest))
    made.put(figures, "seconds", name, round(phase.took, 2))
    for what, used in zip(("watching", "running"), phase.used, strict=True):
        made.put(figures, f"processor, {what}, seconds", name, round(used, 2))


if __name__ == "__main__":
    raise SystemExit(main())
