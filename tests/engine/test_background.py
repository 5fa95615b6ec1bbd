"""Waiting from synchronous code for what the process's loop runs."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.engine import background
from criogen_threads.threads import syncing

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 20.0


def stream(ended: threading.Event) -> None:
    pieces: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    late = threading.Timer(LONG, lambda: (ended.set(), pieces.put((False, None))))
    late.start()
    try:
        syncing._next(pieces)
    finally:
        late.cancel()


def call(ended: threading.Event) -> None:
    async def work() -> None:
        await asyncio.sleep(LONG)
        ended.set()

    background.run(work)


@pytest.mark.parametrize("waits", [call, stream])
def test_p9_an_interrupt_that_wakes_nobody_is_heard_all_the_same(waits: Callable[[threading.Event], None]) -> None:
    """As one that comes just before the wait: its flag is set, and no system call of the main thread is cut short."""
    ended = threading.Event()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
    elsewhere = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    elsewhere.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            waits(ended)
    finally:
        signal.signal(signal.SIGINT, before)
    elsewhere.join()
    assert not ended.is_set(), "it was heard only when the wait was over"
