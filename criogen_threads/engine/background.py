"""The process's own event loop: submitted runs live on it, and ``_sync`` calls run on it.

One loop a process, in a daemon thread, started when first needed and forgotten after a fork; so that clients
of model providers, which belong to one loop, are shared by all of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from concurrent.futures import wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import async_to_sync

from criogen_threads.conf import settings
from criogen_threads.engine.pools import standing_aside
from criogen_threads.errors import SyncInAsyncError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

T = TypeVar("T")

STOP_SECONDS = 5.0
"""Seconds that what is left on the loop gets to end."""

HEED_SECONDS = 0.5
"""Seconds that a waiting thread may be deaf: a signal that comes just before a wait is heard only after it."""

_starting = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def loop() -> asyncio.AbstractEventLoop:
    """The process's loop, running."""
    global _loop
    with _starting:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="criogen-loop", daemon=True).start()
        return _loop


def _forget() -> None:
    global _loop, _starting
    _starting = threading.Lock()
    _loop = None


os.register_at_fork(after_in_child=_forget)


def spawn(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on the process's loop, with the caller's context variables."""
    return asyncio.run_coroutine_threadsafe(_in_context(coroutine, contextvars.copy_context()), loop())


async def _in_context(coroutine: Coroutine[Any, Any, T], context: contextvars.Context) -> T:
    return await asyncio.get_running_loop().create_task(coroutine, context=context)


def run(function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
    """Run an asynchronous function to its end from synchronous code.

    Raises:
        SyncInAsyncError: ``sync_in_async``: this thread runs an event loop, which would stand still.
    """
    if _in_event_loop():
        raise SyncInAsyncError
    if settings.IN_CALLING_THREAD:
        return async_to_sync(function)(*args, **kwargs)
    future = spawn(function(*args, **kwargs))
    try:
        with standing_aside():
            while not wait([future], HEED_SECONDS).done:
                pass
            return future.result()
    except BaseException:
        future.cancel()  # an interrupt of the waiting thread ends the call too
        raise


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def stop() -> None:
    """End what is left on the process's loop, and close its clients."""
    if _loop is None or not _loop.is_running():
        return
    with suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(_finish(), _loop).result(STOP_SECONDS)
    _loop.call_soon_threadsafe(_loop.stop)


async def _finish() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
