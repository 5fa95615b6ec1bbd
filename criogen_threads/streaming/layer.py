"""The channel layer: best effort, beside the hub, for what other processes watch.

Publishing is a bounded queue with a task of its own and a time limit: a dead layer holds nobody. Everything in
here may be lost: the relay heals it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from typing import TYPE_CHECKING, Any

from channels.layers import InMemoryChannelLayer, get_channel_layer

from criogen_threads.conf import settings
from criogen_threads.engine import background

if TYPE_CHECKING:
    from uuid import UUID

logger = logging.getLogger("criogen_threads")

QUEUED = 1000
"""Messages that may wait for the layer; further ones are dropped."""

PUBLISH_SECONDS = 1.0
QUIET_SECONDS = 30.0


def shared_layer() -> Any:
    """The layer that other processes hear, or None: the in-memory one goes no further than the hub does."""
    layer = get_channel_layer(settings.CHANNEL_LAYER)
    return None if isinstance(layer, InMemoryChannelLayer) else layer


def group(key: str) -> str:
    """The group of a thread: never the user's own text."""
    return f"criogen.thread.{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def worker_channel(worker: UUID | str) -> str:
    """Where a process that runs turns hears requests."""
    return f"criogen.worker.{worker}"


class Publisher:
    """Sends to the layer from the process's own loop; ``post`` may be called from any thread."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[str, str, dict[str, Any]]] | None = None
        self._task: asyncio.Task[None] | None = None  # held, or it would be collected
        self._complained = 0.0

    def post(self, how: str, where: str, message: dict[str, Any]) -> None:
        """Have a message sent: ``how`` is the layer's method, "group_send" or "send"."""
        background.loop().call_soon_threadsafe(self._offer, how, where, message)

    def _offer(self, how: str, where: str, message: dict[str, Any]) -> None:
        if self._queue is None:
            self._queue = asyncio.Queue(QUEUED)
            self._task = asyncio.get_running_loop().create_task(self._send_all(self._queue))
        try:
            self._queue.put_nowait((how, where, message))
        except asyncio.QueueFull:
            self._complain("The channel layer is too slow: messages are dropped")

    async def _send_all(self, queue: asyncio.Queue[tuple[str, str, dict[str, Any]]]) -> None:
        while True:
            how, where, message = await queue.get()
            layer = shared_layer()
            if layer is None:
                continue
            try:
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await getattr(layer, how)(where, message)
            except Exception:  # whatever it was, the relays heal what is lost
                self._complain("The channel layer failed: messages are dropped", exc_info=True)

    def _complain(self, text: str, **options: Any) -> None:
        if time.monotonic() - self._complained > QUIET_SECONDS:
            self._complained = time.monotonic()
            logger.warning(text, **options)
