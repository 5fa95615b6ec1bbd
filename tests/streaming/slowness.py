"""A machine's own slowness, so that a promise in seconds can be asserted on a busy one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

STEP = 0.05
SHARE = 10
"""How often as late as this process others may be: they have to be scheduled, too, one behind the other."""


class Stopwatch:
    """Measures a block, and how late this process came meanwhile at what should have taken no time."""

    async def __aenter__(self) -> Self:
        self.began, self.late = time.monotonic(), 0.0
        self._measuring = asyncio.create_task(self._measure())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.elapsed = time.monotonic() - self.began
        self._measuring.cancel()

    async def _measure(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(STEP)
            self.late += time.monotonic() - before - STEP

    def within(self, seconds: float) -> bool:
        """Whether the block took no longer, but for what the machine itself was late."""
        return self.elapsed < seconds + SHARE * self.late
