"""The default dispatcher: this process, nothing to install."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from criogen_threads.conf import settings
from criogen_threads.engine import background
from criogen_threads.engine import lease as leases
from criogen_threads.engine.dispatch.base import Dispatcher
from criogen_threads.engine.dispatch.executing import execute, execute_due, execute_retry
from criogen_threads.engine.journal import leftovers, lines
from criogen_threads.engine.pools import in_database

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any
    from uuid import UUID

logger = logging.getLogger("criogen_threads")

SCAN_SECONDS = 10.0
"""Seconds between two looks for submitted runs that nobody executes."""


class InProcess(Dispatcher):
    """Runs on this process's own loop; at most ``MAX_RUNS`` at once. Starts when first needed."""

    def __init__(self) -> None:
        self.active: set[Any] = set()
        self._slots: asyncio.Semaphore | None = None
        self._scanning = False
        self._closed = False

    def close(self) -> None:
        self._closed = True

    def submit(self, run_id: UUID) -> None:
        self._start(run_id, execute(run_id))

    def resume(self, key: str) -> None:
        self._start(key, execute_due(key))

    def retry(self, run_id: UUID) -> None:
        self._start(("retry", run_id), execute_retry(run_id))

    def _start(self, name: Any, work: Coroutine[Any, Any, Any]) -> None:
        if name in self.active:
            work.close()
            return
        self.active.add(name)
        background.spawn(self._in_a_slot(name, work))
        self.attend()

    def attend(self) -> None:
        if not self._scanning:
            self._scanning = True
            background.spawn(self._scan())

    async def _in_a_slot(self, name: Any, work: Coroutine[Any, Any, Any]) -> None:
        if self._slots is None:
            self._slots = asyncio.Semaphore(settings.MAX_RUNS)
        try:
            async with self._slots:
                await work
        finally:
            self.active.discard(name)

    async def _scan(self) -> None:
        """Take up what nobody executes: runs whose process died, and those that had to stay in line."""
        while not leases.current().stopping:
            await asyncio.sleep(SCAN_SECONDS)
            if self._closed:
                return
            try:
                for run_id in await in_database(leftovers.forsaken, leases.current().id):
                    self.submit(run_id)
                for key in await in_database(leftovers.due):
                    self.resume(key)
                for thread in await in_database(leftovers.silent):
                    await in_database(lines.pass_over, thread)
            except Exception:
                logger.exception("The look for forsaken runs failed")
