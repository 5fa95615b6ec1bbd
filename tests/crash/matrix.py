"""The crash matrix: a scenario, once for each point at which its process can die."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from django.db import connection, connections
from django.db.models.functions import Now

from criogen_threads.models import Worker
from tests.crash.actors import Ledger
from tests.crash.checks import Snapshot, check, check_family
from tests.crash.forge import Forge

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

FORGES = 2
TRIES = 3
"""How often a process is sent to a point that it does not come by each time."""

QUIET = {"LEASE_SECONDS": 600, "HEARTBEAT_SECONDS": 10}
"""A lease that no living process loses, however slow the machine is."""

NOTHING = Snapshot(None, [], 0, {}, Counter())
"""What a process left that has not begun."""


@dataclass(frozen=True)
class Case:
    """One way through the matrix.

    Args:
        on_crash: That of the slow tool.
        waits: Seconds of a lease that is really waited out; None where the worker's row is expired instead,
            which is what the time would do.
        alone: One crash at a time: the recovery takes up whatever it finds.
        agency: Agents that ask each other, in the place of one agent.
    """

    scenario: str
    on_crash: str = "rerun"
    waits: float | None = None
    alone: bool = False
    agency: bool = False

    @property
    def check(self) -> Callable[[str, Ledger, Snapshot, str], None]:
        return check_family if self.agency else check

    @property
    def settings(self) -> dict[str, float]:
        """Those of the process that dies."""
        if self.waits is None:
            return QUIET
        return {"LEASE_SECONDS": self.waits, "HEARTBEAT_SECONDS": self.waits / 4}


class Matrix:
    """Runs cases in children of two forges."""

    def __init__(self) -> None:
        self._forges: SimpleQueue[Forge] = SimpleQueue()
        self._all = [Forge() for _ in range(FORGES)]
        for forge in self._all:
            self._forges.put(forge)
        self.missed: list[str] = []
        self.folder = Path(tempfile.mkdtemp(prefix="criogen-crash-"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for forge in self._all:
            forge.__exit__()
        shutil.rmtree(self.folder)

    def points(self, case: Case) -> list[str]:
        """The points that a process comes by which does not die. It leaves everything as it should be."""
        place = self._place()
        with _Borrowed(self._forges) as forge:
            self._finish(forge, case, place)
        case.check(place.name, Ledger(place), NOTHING, case.on_crash)
        return list(json.loads((place / "points").read_text()))

    def failures(self, case: Case, points: list[str], also: Callable[[str, Snapshot], None] | None = None) -> list[str]:
        """Crash at each of the points, recover, check; what went wrong, a text for each."""
        with ThreadPoolExecutor(1 if case.alone else FORGES) as pool:
            return [text for text in pool.map(lambda point: self._attempt(case, point, also), points) if text]

    def _attempt(self, case: Case, point: str, also: Callable[[str, Snapshot], None] | None) -> str:
        try:
            if any(self._crash_and_recover(case, point, also) for _ in range(TRIES)):
                return ""
            assert not point.endswith(" #1"), "no process came by"
            self.missed.append(point)  # how often a dispatcher looks for its turn is a matter of time
        except Exception:
            return f"{case.scenario}, {case.on_crash}, {point}:\n{traceback.format_exc(limit=-2)}"
        finally:
            connections.close_all()
        return ""

    def _crash_and_recover(self, case: Case, point: str, also: Callable[[str, Snapshot], None] | None) -> bool:
        """Whether the process came by the point, and died there."""
        place = self._place()
        ledger = Ledger(place)
        with _Borrowed(self._forges) as forge:
            pid = forge.start(at=point, **self._job(case, place, case.settings))
            ended = forge.wait()
            settle(place.name)
            if ended == 0:
                case.check(place.name, ledger, NOTHING, case.on_crash)
                return False
            assert ended == -signal.SIGKILL, f"{ended} {error_of(place)}"
            snapshot = Snapshot.take(place.name, ledger)
            if also is not None:
                also(place.name, snapshot)
            if case.waits is None:
                Worker.objects.filter(pid=pid).update(expires_at=Now())
            else:
                time.sleep(case.waits)
            self._finish(forge, case, place)
        case.check(place.name, ledger, snapshot, case.on_crash)
        return True

    def _finish(self, forge: Forge, case: Case, place: Path) -> None:
        ended = forge.run(**self._job(case, place, QUIET))
        assert ended == 0, f"{ended} {error_of(place)}"
        settle(place.name)

    def _job(self, case: Case, place: Path, settings: dict[str, float]) -> dict[str, Any]:
        return {
            "folder": str(place), "key": place.name, "name": place.name, "scenario": case.scenario,
            "on_crash": case.on_crash, "settings": settings, "agency": case.agency,
        }  # fmt: skip

    def _place(self) -> Path:
        """A folder for one pair of processes; its name is the key of their thread."""
        return Path(tempfile.mkdtemp(prefix="crash-", dir=self.folder))


class _Borrowed:
    def __init__(self, forges: SimpleQueue[Forge]) -> None:
        self._forges = forges

    def __enter__(self) -> Forge:
        self._forge = self._forges.get()
        return self._forge

    def __exit__(self, *_: object) -> None:
        self._forges.put(self._forge)


def error_of(place: Path) -> str:
    """What a child has raised, or where it hung."""
    return "".join(file.read_text() for file in (place / "error", place / "stuck") if file.exists())


def settle(name: str) -> None:
    """Wait until the server has noticed that a process is gone: a COMMIT of its last moment counts."""
    if connection.vendor != "postgresql":
        return
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [name])
            if cursor.fetchone() == (0,):
                return
        time.sleep(0.005)
    raise AssertionError(f"the connections of {name} do not end")
