"""Children of the crash tests, forked from one process that has everything loaded.

As a module it is that process: it reads jobs, one JSON object a line, and says ``{"pid": …}`` when a child has
begun and ``{"status": …}`` when it has ended. ``Forge`` is its other end.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.processes import spawn

if TYPE_CHECKING:
    from typing import Self

LONGEST = 120
"""Seconds until a child that hangs is ended."""


class Forge:
    """Starts children, one after the other."""

    def __init__(self) -> None:
        self._process = spawn("tests.crash.forge", stderr=sys.stderr)

    def start(self, **job: Any) -> int:
        """Begin a child, and return its process id; see ``_child`` for what a job names."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._hear()["pid"])

    def wait(self) -> int:
        """The exit code of the child: negative where a signal ended it."""
        return int(self._hear()["status"])

    def run(self, **job: Any) -> int:
        self.start(**job)
        return self.wait()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the forge has died"
        return dict(json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def _serve() -> None:
    import django

    django.setup()
    from tests.crash import points, scenarios  # noqa: F401 (loaded once, for all children)

    for on_crash in ("rerun", "ask", "report"):
        scenarios.agent(on_crash).thread("warm")
    scenarios.agency().entry.thread("warm")
    gc.collect()
    gc.freeze()
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            os._exit(_ended(json.loads(line)))
        _say(pid=pid)
        _say(status=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _say(**what: int) -> None:
    print(json.dumps(what), flush=True)


def _ended(job: dict[str, Any]) -> int:
    """The exit code; an error, or where a child hung, is left in the folder of the job."""
    folder = Path(job.pop("folder"))
    (folder / "error").unlink(missing_ok=True)
    signal.alarm(LONGEST)
    try:
        with (folder / "stuck").open("w") as stuck:
            faulthandler.dump_traceback_later(LONGEST - 1, file=stuck)
            _child(folder, **job)
            faulthandler.cancel_dump_traceback_later()
    except BaseException:
        (folder / "error").write_text(traceback.format_exc())
        return 1
    return 0


def _child(
    folder: Path, *, scenario: str, key: str, on_crash: str = "rerun", at: str | None = None,
    end: int = signal.SIGKILL, name: str = "", agency: bool = False, settings: dict[str, Any] | None = None,
    locked_for: str = "15s",
) -> None:  # fmt: skip
    """One child: plays a scenario, and writes down which points it came by.

    Args:
        folder: Where ledger, points and errors are written.
        at: The point where it gets the signal ``end``.
        name: What the server calls its connections.
        agency: Agents that ask each other, in the place of one agent.
        settings: ``CRIOGEN_THREADS``.
        locked_for: How long the server lets a silent transaction keep its locks.
    """
    from django.conf import settings as site

    from criogen_threads.agents import register
    from criogen_threads.engine.journal import pen
    from tests.crash import points, scenarios

    os.environ["PGAPPNAME"] = name
    site.CRIOGEN_THREADS = settings or {}
    pen.LOCKED_FOR = locked_for
    probe = points.Probe(at, signal.Signals(end))
    probe.install()
    agent = register(scenarios.agency()).entry if agency else register(scenarios.agent(on_crash))
    stage = scenarios.Stage(agent.thread(key), folder)
    scenarios.LEDGER.open(folder)
    scenarios.LEDGER.probe = probe

    async def play() -> None:
        if scenario in scenarios.PREPARED:
            await scenarios.prepare(stage)
        probe.armed = True
        await scenarios.SCENARIOS[scenario](stage)

    asyncio.run(play())
    (folder / "points").write_text(json.dumps(probe.seen))


if __name__ == "__main__":
    _serve()
