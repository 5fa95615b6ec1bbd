"""How long the event loop's thread is kept busy at a time."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Longest:
    """Milliseconds: of one piece of work on the loop's thread, and by which a ticking task was late."""

    work = 0.0
    lateness = 0.0


@contextmanager
def longest_block() -> Iterator[Longest]:
    """Watch the running loop: each callback's processor time, and a task that ticks every millisecond.

    The first is what the loop's own work costs; the second also sees other threads and other processes.
    """
    longest = Longest()
    run = asyncio.Handle._run

    def timed(handle: Any) -> None:
        started = time.thread_time()
        run(handle)
        longest.work = max(longest.work, (time.thread_time() - started) * 1000)

    async def tick() -> None:
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            longest.lateness = max(longest.lateness, (time.perf_counter() - due) * 1000)

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    task = asyncio.ensure_future(tick())
    try:
        yield longest
    finally:
        task.cancel()
        asyncio.Handle._run = run  # type: ignore[method-assign]
