"""Where synchronous work runs: bounded pools of daemon threads, apart from Django's and asyncio's own.

Daemon threads, because a graceful stop saves from ``atexit``, when the pools of ``concurrent.futures`` have
already closed, and because a synchronous tool that hangs must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections

from criogen_threads.conf import settings
from criogen_threads.engine.journal.writing import patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
T = TypeVar("T")


_here = threading.local()


class DaemonPool:
    """At most ``limit()`` threads at work, started when needed and kept."""

    def __init__(self, name: str, limit: Callable[[], int]) -> None:
        self.name = name
        self.limit = limit
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Forget the threads: a fork does not have those of its parent."""
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0

    def submit(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Do a job in a thread, with the caller's context variables; what comes of it, on the running event loop."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        context = contextvars.copy_context()
        with self._changed:
            self._jobs.append(lambda: _complete(future, lambda: context.run(job)))
            self._start_thread()
            self._changed.notify()
        return future

    @contextmanager
    def without_me(self) -> Iterator[None]:
        """Let another thread work while this one, which is of the pool, waits."""
        with self._changed:
            self._threads -= 1
            self._start_thread()
        try:
            yield
        finally:
            with self._changed:
                self._threads += 1

    def _start_thread(self) -> None:
        if self._idle < len(self._jobs) and self._threads < self.limit():
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self.name}-{self._threads}", daemon=True).start()

    def _work(self) -> None:
        _here.pool = self
        while True:
            with self._changed:
                if self._threads > self.limit():  # this one stood in for one that waited
                    self._threads -= 1
                    return
                self._idle += 1
                while not self._jobs:
                    self._changed.wait()
                self._idle -= 1
                job = self._jobs.popleft()
            job()


def _complete(future: asyncio.Future[T], job: Callable[[], T]) -> None:
    """Do a job whose caller still waits, in a thread; what it raises belongs to the caller."""
    if future.cancelled():
        return
    settle: Callable[[], None]
    try:
        settle = partial(future.set_result, _and_close(job))
    except BaseException as error:
        settle = partial(future.set_exception, tamed(error))
    with suppress(RuntimeError):  # the event loop is closed: nobody is there to hear of it
        future.get_loop().call_soon_threadsafe(lambda: None if future.done() else settle())


def tamed(error: BaseException) -> Exception:
    """What a site's code raised, as something that a future can carry and that ends no event loop.

    ``sys.exit()``, the panic of a compiled library and StopIteration become the cause of a RuntimeError; an
    interrupt from the keyboard, which only the main thread gets, stays what it is.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"{type(error).__name__} was raised")
    wrapped.__cause__ = error
    return wrapped


def _tamely(job: Callable[[], T]) -> T:
    try:
        return job()
    except BaseException as error:
        safe = tamed(error)
        raise safe from safe.__cause__


def _and_close(job: Callable[[], T]) -> T:
    try:
        return job()
    finally:
        close_connections()


@contextmanager
def standing_aside() -> Iterator[None]:
    """Wait for a run, which may need the very pool that this thread is of: a tool that calls another agent.

    It gives its connection back, too.
    """
    pool: DaemonPool | None = getattr(_here, "pool", None)
    if pool is None:
        yield
        return
    close_connections()
    with pool.without_me():
        yield


def close_connections() -> None:
    """Give this thread's connections back: none is held between two jobs."""
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()


database_pool = DaemonPool("criogen-database", lambda: settings.DATABASE_THREADS)
tool_pool = DaemonPool("criogen-tool", lambda: settings.TOOL_THREADS)


async def in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a read or a save in the database pool, and wait for its end whatever happens to the caller.

    It is repeated while the database is away; a save, which repeats itself, knows whether it was written.
    A cancelled caller gets its cancellation after the function has ended: a thread cannot be stopped, and
    what it saved must be known.
    """
    return await _finished(_submit(database_pool, lambda: patiently(lambda: function(*args, **kwargs))))


async def in_tool_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a site's synchronous code in the tool pool. A cancelled caller leaves it running, unheard."""
    return await _submit(tool_pool, lambda: function(*args, **kwargs))


async def save_in_tool_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like ``in_database``, in the tool pool: an atomic tool's save lasts as long as the tool."""
    return await _finished(_submit(tool_pool, lambda: function(*args, **kwargs)))


def _submit(pool: DaemonPool, job: Callable[[], T]) -> asyncio.Future[T]:
    if settings.IN_CALLING_THREAD:
        return asyncio.ensure_future(sync_to_async(lambda: _tamely(job), thread_sensitive=True)())
    return pool.submit(job)


async def _finished(future: asyncio.Future[T]) -> T:
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        future.exception()
        raise asyncio.CancelledError
    return future.result()
