"""The ``_sync`` form of every call, and the guard against the caller's own open transaction."""

from __future__ import annotations

import queue
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from asgiref.sync import AsyncToSync, sync_to_async
from django.db import connections

from criogen_threads.conf import settings
from criogen_threads.engine import background
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.pools import standing_aside
from criogen_threads.errors import InTransactionError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator

    from criogen_threads.threads.base import Base

H = TypeVar("H", bound="Base")
P = ParamSpec("P")
T = TypeVar("T")


def blocking(
    method: Callable[Concatenate[H, P], Coroutine[Any, Any, T]], *, writes: bool = False
) -> Callable[Concatenate[H, P], T]:
    """The same call without asyncio, for scripts, views and notebooks.

    Args:
        writes: Refuse the call inside the caller's own open transaction.
    """

    @wraps(method)
    def call(handle: H, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if writes:
            refuse_here()
        return background.run(method, handle, *args, **kwargs)

    call.__name__ += "_sync"
    call.__qualname__ += "_sync"
    return call


def blocking_stream(
    method: Callable[Concatenate[H, P], AsyncGenerator[T]],
) -> Callable[Concatenate[H, P], Generator[T]]:
    """The same stream as a plain iterator; leaving it cancels the run."""

    @wraps(method)
    def call(handle: H, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T]:
        refuse_here()
        if settings.IN_CALLING_THREAD:
            yield from background.run(_collect, method(handle, *args, **kwargs))
            return
        pieces: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        future = background.spawn(_pour(method(handle, *args, **kwargs), pieces))
        try:
            while (piece := _next(pieces))[0]:
                yield piece[1]
            future.result()
        finally:
            future.cancel()

    call.__name__ += "_sync"
    call.__qualname__ += "_sync"
    return call


def _next(pieces: queue.SimpleQueue[tuple[bool, Any]]) -> tuple[bool, Any]:
    with standing_aside():
        while True:
            with suppress(queue.Empty):
                return pieces.get(timeout=background.HEED_SECONDS)


async def _collect(stream: AsyncGenerator[T]) -> list[T]:
    return [piece async for piece in stream]


async def _pour(stream: AsyncGenerator[Any], pieces: queue.SimpleQueue[tuple[bool, Any]]) -> None:
    try:
        async for piece in stream:
            pieces.put((True, piece))
    finally:
        await stream.aclose()
        pieces.put((False, None))


async def refuse_open_transaction() -> None:
    """Refuse a call inside the caller's own open transaction: it would wait for it for ever.

    Raises:
        InTransactionError: ``in_transaction``.
    """
    refuse_here()
    if not settings.IN_CALLING_THREAD and getattr(AsyncToSync.executors, "current", None) is not None:
        await sync_to_async(refuse_here, thread_sensitive=True)()  # the thread that called async_to_sync


def refuse_here() -> None:
    """``refuse_open_transaction`` for the thread that calls.

    Raises:
        InTransactionError: ``in_transaction``.
    """
    if settings.IN_CALLING_THREAD:
        return
    connection = connections[database()]
    if connection.in_atomic_block:
        raise InTransactionError
