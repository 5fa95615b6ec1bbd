"""Submitted runs: who executes them, and what becomes of those that a dead process left."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from django.utils.module_loading import import_string

from criogen_threads import errors
from criogen_threads.conf import settings
from criogen_threads.engine import admission, background, driving
from criogen_threads.engine import lease as leases
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.journal import lines, posts
from criogen_threads.engine.threads import in_database
from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any
    from uuid import UUID

logger = logging.getLogger("criogen_threads")

SCAN_SECONDS = 10.0
"""Seconds between two looks for submitted runs that nobody executes."""

LONGEST_PAUSE = 1.0


class Dispatcher:
    """Hands runs to whatever executes them. It is given ids only: the row is the truth."""

    def submit(self, run_id: UUID) -> None:
        """Have a queued run executed."""
        raise NotImplementedError

    def resume(self, key: str) -> None:
        """Have a fully answered run taken up again."""
        raise NotImplementedError


class InProcess(Dispatcher):
    """Runs on this process's own loop; at most ``MAX_RUNS`` at once. Starts when first needed."""

    def __init__(self) -> None:
        self.active: set[Any] = set()
        self._slots: asyncio.Semaphore | None = None
        self._scanning = False

    def submit(self, run_id: UUID) -> None:
        self._start(run_id, execute(run_id))

    def resume(self, key: str) -> None:
        self._start(key, execute_due(key))

    def _start(self, name: Any, work: Coroutine[Any, Any, None]) -> None:
        if name in self.active:
            work.close()
            return
        self.active.add(name)
        background.spawn(self._in_a_slot(name, work))
        if not self._scanning:
            self._scanning = True
            background.spawn(self._scan())

    async def _in_a_slot(self, name: Any, work: Coroutine[Any, Any, None]) -> None:
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
            try:
                for run_id in await in_database(lines.forsaken, leases.current().id):
                    self.submit(run_id)
                for key in await in_database(lines.due):
                    self.resume(key)
            except Exception:
                logger.exception("The look for forsaken runs failed")


async def execute(run_id: UUID) -> None:
    """Run a queued run to its end, once it is first in line and its thread is free.

    It stays in line, and is left, where the thread waits for a person or for ``retry()``.
    """
    conduct = Conduct(float("inf"))
    pause = admission.FIRST_PAUSE
    try:
        if not await in_database(_claim, run_id):
            return
        while (lease := await in_database(admission.start_queued, run_id, new_id())) is None:
            await conduct.pause(pause)
            pause = min(LONGEST_PAUSE, pause * 1.5)
        await driving.run(conduct, lease)
    except errors.CriogenError as error:
        logger.info("The submitted run %s did not complete: %s (%s)", run_id, error, error.code)


async def execute_due(key: str) -> None:
    """Continue a run whose approvals are all answered."""
    conduct = Conduct()
    try:
        lease = await in_database(admission.resume, key)
        if lease is not None:
            await driving.run(conduct, lease)
    except errors.CriogenError as error:
        logger.info("The answered run of %s did not complete: %s (%s)", key, error, error.code)


def _claim(run_id: UUID) -> bool:
    return posts.claim(run_id, leases.current().ensure())


_dispatcher: Dispatcher | None = None


def get_dispatcher() -> Dispatcher:
    """The dispatcher that the site chose."""
    global _dispatcher
    path = {"in_process": f"{__name__}.InProcess"}.get(settings.DISPATCHER, settings.DISPATCHER)
    wanted = import_string(path)
    if _dispatcher is None or type(_dispatcher) is not wanted:
        _dispatcher = wanted()
    return _dispatcher


def submit(run_id: UUID) -> None:
    """Have a queued run executed."""
    get_dispatcher().submit(run_id)


def resume(key: str) -> None:
    """Have a fully answered run taken up again."""
    get_dispatcher().resume(key)


def _forget() -> None:
    global _dispatcher
    _dispatcher = None


os.register_at_fork(after_in_child=_forget)
