"""Work that can be told to stop from any thread, and that stops at the next place where it waits."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from criogen_threads import errors
from criogen_threads.engine import lease as leases

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

T = TypeVar("T")

UNSAVED = (errors.LeaseLostError, errors.ShuttingDownError, errors.DatabaseUnavailableError)
"""What ends a run here and cannot or may not be saved: it is left to whoever takes the thread next."""


class Stoppable:
    """Waits for models and tools so that a stop ends the waiting; saves are never cut off."""

    def __init__(self) -> None:
        self.stopped: errors.CriogenError | None = None
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._nested: set[Stoppable] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def stop(self, error: errors.CriogenError) -> None:
        """End with this error as soon as it can be; called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop, error)

    def _stop(self, error: errors.CriogenError) -> None:
        if self.stopped is None:
            self.stopped = error
            for task in self._tasks:
                task.cancel()
            for other in self._nested:
                other._stop(_passed_on(error))

    @contextmanager
    def stopping_too(self, other: Stoppable) -> Iterator[None]:
        """While this waits for another one, what stops this stops that."""
        self._nested.add(other)
        try:
            if self.stopped is not None:
                other._stop(_passed_on(self.stopped))
            yield
        finally:
            self._nested.discard(other)

    def heed(self) -> None:
        """Raise why this was stopped, if it was, or LeaseLostError when this process may count as dead."""
        if self.stopped is not None:
            raise self.stopped
        if not leases.current().alive:
            raise errors.LeaseLostError

    async def interruptible(self, work: Awaitable[T]) -> T:
        """Wait for a model or a tool, which a stop ends."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        try:
            self.heed()
            return await task
        except asyncio.CancelledError:
            if self.stopped is not None:
                raise self.stopped from None
            raise
        finally:
            self._tasks.discard(task)
            await _ended(task)

    async def for_a_while(self, work: Awaitable[Any], seconds: float) -> bool:
        """Wait for what changes nothing any more. A stop that comes now ends it, and so does time: False then."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
            return bool(done)
        finally:
            self._tasks.discard(task)
            await _ended(task)

    async def together(self, works: Sequence[Awaitable[None]]) -> None:
        """Do several things side by side; the first that fails ends the others."""
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            if self.stopped is not None:
                raise self.stopped from None
            raise
        finally:
            for task in tasks:
                await _ended(task)

    def watch(self, max_seconds: float | None) -> None:
        """Stop when the lease has run out, watched outside the beating thread, which may hang; or after a time."""
        self._watch_lease(leases.current())
        if max_seconds is not None:
            error = errors.LimitReachedError(f"the run took longer than {max_seconds:g} seconds")
            self._timers["limit"] = self._loop.call_later(max_seconds, self._stop, error)

    def _watch_lease(self, worker: leases.Worker) -> None:
        if not worker.alive:
            self._stop(errors.LeaseLostError())
        elif worker.deadline != float("inf"):
            left = max(0.05, worker.deadline - time.monotonic())
            self._timers["lease"] = self._loop.call_later(left, self._watch_lease, worker)

    def unwatch(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


def is_being_cancelled() -> bool:
    """Whether somebody else cancels this task; code that it runs may also cancel itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _passed_on(error: errors.CriogenError) -> errors.CriogenError:
    """What stops a run that was asked for by one that this stops."""
    return error if isinstance(error, UNSAVED) else errors.RunCancelledError()


async def _ended(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it has really ended, however often this is cancelled meanwhile."""
    task.cancel()
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if not task.cancelled():
        task.exception()
    if cancelled:
        raise asyncio.CancelledError
