"""One model per event loop, closed with its loop or with the backend that made it."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from pydantic_ai.models import Model


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    model: Model | None = None
    keeper: AsyncGenerator[Model] | None = None


_Entries: TypeAlias = dict[asyncio.AbstractEventLoop, _Entry]


class LoopModels:
    """The models that a backend has made, one for each live event loop.

    Args:
        build: Makes a model. Called in a thread.
    """

    def __init__(self, build: Callable[[], Model]) -> None:
        self._build = build
        self._entries: _Entries = {}
        # holds the entries too: a backend that is dropped must not take open sockets with it
        weakref.finalize(self, _close_all, self._entries).atexit = False

    async def get(self) -> Model:
        """The running loop's model, made when it is first asked for."""
        loop = asyncio.get_running_loop()
        entry = self._entries.setdefault(loop, _Entry())
        async with entry.lock:
            if entry.model is None:
                _forget_closed_loops(self._entries)
                model = await asyncio.to_thread(self._build)
                entry.keeper = _keep(self._entries, loop, model)
                entry.model = await anext(entry.keeper)
        return entry.model


async def _keep(entries: _Entries, loop: asyncio.AbstractEventLoop, model: Model) -> AsyncGenerator[Model]:
    # a loop that shuts down closes its asynchronous generators: the one hook that asyncio has for its end
    try:
        async with model:
            yield model
    finally:
        entries.pop(loop, None)


def _forget_closed_loops(entries: _Entries) -> None:
    # a client refers to its loop, so a weak key would not go either
    for loop in [loop for loop in list(entries) if loop.is_closed()]:
        entries.pop(loop, None)


def _close_all(entries: _Entries) -> None:
    _forget_closed_loops(entries)
    for loop, entry in list(entries.items()):
        if entry.keeper is not None:
            with suppress(RuntimeError):  # closed just now, by another thread
                loop.call_soon_threadsafe(_close, loop, entry.keeper)


def _close(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[Model]) -> None:
    loop.create_task(keeper.aclose())
