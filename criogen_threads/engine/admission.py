"""How a call gets a thread: at once, after waiting in line, or not at all."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from criogen_threads import errors
from criogen_threads.conf import settings
from criogen_threads.engine import dispatch
from criogen_threads.engine import lease as leases
from criogen_threads.engine.conversation import Conversation
from criogen_threads.engine.journal import lines, posts, takes, turns
from criogen_threads.engine.journal.askers import SITE, Asker
from criogen_threads.engine.pools import in_database
from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from uuid import UUID

    from criogen_threads.engine.journal.takes import Lease
    from criogen_threads.engine.journal.turns import SentBefore, Turn
    from criogen_threads.engine.loop import Runner

T = TypeVar("T")
L = TypeVar("L", "Lease", "Lease | None")

FIRST_PAUSE = 0.1
"""Seconds between two looks of the first in line; the further behind, the less often it is."""

LONGEST_PAUSE = 1.0
RENEW_SECONDS = 2.0
"""Seconds between two signs of life of a waiting call."""


class Conduct:
    """One call that wants a thread. It can be cancelled at any moment, and what it saved stays true.

    Nothing in here is ever cut off between a commit and the knowledge of it: a cancelled caller only asks,
    and waits until the run has ended.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self.deadline = self._now() + (settings.BUSY_TIMEOUT if timeout is None else timeout)
        self.cancelled = asyncio.Event()
        self.runner: Runner | None = None

    async def see_through(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work to its end, and only then give a cancellation of the caller back to it."""
        task = asyncio.ensure_future(work)
        cancelled = False
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                cancelled = True
                self.cancel()
        if cancelled:
            if not task.cancelled():
                task.exception()
            raise asyncio.CancelledError
        return task.result()

    def cancel(self) -> None:
        """Stop waiting; stop the run, which is saved as cancelled."""
        self.cancelled.set()
        if self.runner is not None:
            self.runner.stop(errors.RunCancelledError())

    def drive(self, runner: Runner) -> Runner:
        """Name the run that a cancellation stops."""
        self.runner = runner
        if self.cancelled.is_set():
            runner.stop(errors.RunCancelledError())
        return runner

    # Getting a lease ---------------------------------------------------------------------------------------------

    async def begin(self, turn: Turn) -> Lease | SentBefore:
        """Start a turn, waiting in line where the thread is busy.

        Raises:
            ThreadBusyError: ``thread_busy``: not in time, or at once with ``on_busy="reject"``.
            ThreadSuspendedError, ThreadInterruptedError: Somebody has to see to the thread first.
        """
        while True:
            outcome = await in_database(_begin, turn)
            if not isinstance(outcome, turns.Waiting):
                return outcome
            if turn.on_busy == "interrupt":
                leases.stop_thread(outcome.thread_id, errors.RunCancelledError())
            if lease := await self._wait_in_line(turn):
                return lease
            turn = turn.anew()

    async def _wait_in_line(self, turn: Turn) -> Lease | None:
        """A lease, or None when the place in line was lost: with the thread, or by being silent for too long."""
        try:
            return await self._line(turn)
        except BaseException:
            await in_database(lines.leave, turn.run_id)
            raise

    async def _line(self, turn: Turn) -> Lease | None:
        renewal = self._now() + RENEW_SECONDS
        while True:
            place = await in_database(lines.look, turn.run_id)
            if place is None:
                return await in_database(_why_not_in_line, turn.run_id)
            if not place.ahead and not place.held and not place.due:
                with suppress(errors.RunNotFoundError):
                    if lease := await in_database(start_queued, turn.run_id, turn.checkpoint_id):
                        return lease
            self._keep_waiting()
            if self._now() >= renewal:
                await in_database(lines.renew, turn.run_id)
                renewal = self._now() + RENEW_SECONDS
            if place.held and turn.on_busy == "interrupt" and not place.ahead:
                await in_database(posts.interrupt, turn.run_id)
            await self._wake(place, turn.key)
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * (1 + place.ahead))
            await self.pause(pause * random.uniform(0.8, 1.2))  # noqa: S311 (so that waiters do not march in step)

    async def _wake(self, place: lines.Place, key: str) -> None:
        """What goes first, a fully answered run or one whose process died, is taken up by nobody: have it done."""
        if place.due:
            await in_database(dispatch.resume, key)
        if place.orphan is not None:
            await in_database(dispatch.submit, place.orphan)

    async def once_free(self, attempt: Callable[..., T | None], *args: Any, on_busy: str, key: str, **kwargs: Any) -> T:
        """Repeat an attempt that gives None while somebody holds the thread.

        Raises:
            ThreadBusyError: ``thread_busy``.
        """
        while True:
            result = await in_database(attempt, *args, **kwargs)
            if result is not None:
                return result
            if on_busy == "reject":
                raise errors.ThreadBusyError
            if on_busy == "interrupt":
                await in_database(posts.cancel, key, None, new_id())
            self._keep_waiting()
            await self.pause(FIRST_PAUSE)

    def _keep_waiting(self) -> None:
        if self._now() >= self.deadline:
            raise errors.ThreadBusyError

    async def pause(self, seconds: float) -> None:
        """Wait a moment.

        Raises:
            RunCancelledError: ``cancelled``: the caller was cancelled meanwhile.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self.cancelled.wait(), seconds)
        if self.cancelled.is_set():
            raise errors.RunCancelledError

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _begin(turn: Turn) -> Lease | turns.Waiting | SentBefore:
    outcome = turns.begin(turn, leases.current().ensure())
    return _well_read(outcome) if isinstance(outcome, takes.Lease) else outcome


def start_queued(run_id: UUID, checkpoint_id: UUID) -> Lease | None:
    return _well_read(takes.start_queued(run_id, checkpoint_id, leases.current().ensure()))


def retry(key: str, run_id: UUID, asker: Asker = SITE) -> Lease | None:
    """Take a thread to continue its run; see ``takes.retry``."""
    return _well_read(takes.retry(key, leases.current().ensure(), run_id=run_id, asker=asker))


def resume(key: str, run_id: UUID | None = None) -> Lease | None:
    """Take a thread to continue its fully answered run; see ``takes.resume``."""
    return _well_read(takes.resume(key, leases.current().ensure(), run_id))


def _well_read(lease: L) -> L:
    """A lease with what was said so far, read while the connection is at hand; a run that lacks it reads it itself."""
    if lease is not None:
        with suppress(Exception):  # the thread is taken, whatever becomes of the reading
            lease.conversation = Conversation.read(lease.tail)
    return lease


def _why_not_in_line(run_id: UUID) -> None:
    """Somebody cancelled the run while it waited; otherwise its place was lost, and it queues again."""
    error = lines.failure(run_id)
    if error is not None:
        raise error
