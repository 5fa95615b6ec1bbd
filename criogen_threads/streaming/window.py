"""How much may be under way to a client that does not say that it has read it.

A server's ``send`` never blocks, so it says nothing of the reader: the client does, by acknowledging pages.
"""

from __future__ import annotations

import asyncio
from collections import deque

PAGE_BYTES = 256 * 1024
LIVE_BYTES = 1024 * 1024


class Window:
    """Counts what was sent and what was acknowledged, in bytes."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.page = 0
        self._marked = 0
        self._marks: deque[tuple[int, int]] = deque()
        self._room = asyncio.Event()

    async def room(self, *, replay: bool) -> None:
        """Wait until something may be sent: one page of what is past, or a megabyte of what is live."""
        while self.sent - self.acknowledged >= (PAGE_BYTES if replay else LIVE_BYTES):
            self._room.clear()
            await self._room.wait()

    def count(self, size: int) -> int | None:
        """Note that something was sent; the number of the page that is full now, or None."""
        self.sent += size
        if self.sent - self._marked < PAGE_BYTES:
            return None
        self.page += 1
        self._marked = self.sent
        self._marks.append((self.page, self.sent))
        return self.page

    def acknowledge(self, page: int) -> bool:
        """The client has read up to this page; False for one that was never sent."""
        if page > self.page:
            return False
        while self._marks and self._marks[0][0] <= page:
            self.acknowledged = self._marks.popleft()[1]
        self._room.set()
        return True
