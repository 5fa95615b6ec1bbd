"""What a process holds: connections, threads, tasks."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from django.db import connection

if TYPE_CHECKING:
    from collections.abc import Iterator

SQL = (
    "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%%') FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def open_connections() -> tuple[int, int]:
    """How many connections to the database there are beside this one, and how many of them stand in a
    transaction. SQLite: of this process, and none ever does (its transactions are counted by its lock)."""
    if connection.vendor == "sqlite":
        name = Path(connection.settings_dict["NAME"]).resolve()
        return sum(_target(file) == str(name) for file in Path("/proc/self/fd").iterdir()), 0
    with connection.cursor() as cursor:
        cursor.execute(SQL)
        total, in_transaction = cursor.fetchone()
    return total, in_transaction


def _target(link: Path) -> str:
    """What an open file is; "" when it was closed meanwhile."""
    try:
        return str(link.readlink())
    except OSError:
        return ""


@contextmanager
def watched() -> Iterator[list[int]]:
    """The most connections that were open at once while the block ran, in a list of one."""
    most = [0]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            most[0] = max(most[0], open_connections()[0])
        connection.close()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def engine_threads() -> dict[str, int]:
    """How many threads of the package there are, by the pool that they belong to."""
    found: dict[str, int] = {}
    for thread in threading.enumerate():
        if thread.name.startswith("criogen-"):
            pool = thread.name.rstrip("-0123456789")
            found[pool] = found.get(pool, 0) + 1
    return found


def other_tasks() -> set[asyncio.Task[object]]:
    """The tasks of this loop but the one that asks."""
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]
