"""This process as a worker: its row, its beat, and the runs that are alive in it.

A thread names its holder; the holder's row says until when it counts as alive. The beat renews that row, by a
thread of its own with a connection of its own, so that no tool, save or exhausted pool delays it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from django.db import DatabaseError, connections

from criogen_threads import errors
from criogen_threads.conf import settings
from criogen_threads.engine.journal import saves, workers
from criogen_threads.engine.journal.statements import database
from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

logger = logging.getLogger("criogen_threads")

LOOK_SECONDS = 1.0
"""Seconds between two looks at the cancel marks of this worker's threads."""

OVERDUE_SECONDS = 3.0
"""Seconds that a new turn waits for the beat of a worker whose time is over."""


class LiveRun(Protocol):
    """A run that is alive in this process."""

    thread_id: UUID
    run_id: UUID

    def stop(self, error: errors.CriogenError) -> None:
        """End it as soon as it can; called from any thread."""


class Worker:
    """This process, from its first turn on."""

    def __init__(self) -> None:
        self.id = new_id()
        self.runs: dict[UUID, LiveRun] = {}
        self.stopping = False
        self.deadline = 0.0  # by the monotonic clock: past it, the others may count this worker as dead
        self._writing_alone = 0
        self._suspects: dict[UUID, int] = {}
        self._awake = threading.Event()
        self._ensuring = threading.Lock()
        self._beating: threading.Thread | None = None

    def ensure(self) -> UUID:
        """Make sure that this worker has a row and a beat; returns its id.

        Raises:
            ShuttingDownError: ``shutting_down``.
        """
        if self.stopping:
            raise errors.ShuttingDownError
        with self._ensuring:
            if settings.IN_CALLING_THREAD:
                self._register_once()
            elif self._beating is None:
                self._register()
                self._beating = threading.Thread(target=self._beat, name="criogen-beat", daemon=True)
                self._beating.start()
        if not self.alive:  # the database was away: the beat, which is at it, finds out whether this is a new worker
            _wait_until(lambda: self.alive or self.stopping, OVERDUE_SECONDS)
        return self.id

    def _register_once(self) -> None:
        """Without a beat: a row that the test's own transaction may have taken back."""
        self.deadline = float("inf")
        if not workers.exists(self.id):
            workers.register(self.id, socket.gethostname(), os.getpid())

    def _register(self) -> None:
        before = time.monotonic()
        workers.register(self.id, socket.gethostname(), os.getpid())
        self.deadline = before + settings.LEASE_SECONDS

    @property
    def alive(self) -> bool:
        """Whether this worker may still write, as far as it can know without asking."""
        return self._writing_alone > 0 or time.monotonic() < self.deadline

    @contextmanager
    def writing_alone(self) -> Iterator[None]:
        """While an atomic tool holds the only writer of the database, nobody can take a thread, nor beat."""
        with self._ensuring:
            self._writing_alone += 1
        try:
            yield
            self.deadline = max(self.deadline, time.monotonic() + settings.LEASE_SECONDS / 2)  # its save renewed it
        finally:
            with self._ensuring:
                self._writing_alone -= 1

    # The beat --------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Look at the cancel marks each second, renew the lease at each beat."""
        _leave_the_pool()
        try:
            self._beat_until_stopped()
        finally:
            connections[database()].close()

    def _beat_until_stopped(self) -> None:
        next_beat = time.monotonic() + settings.HEARTBEAT_SECONDS
        while not self._awake.wait(min(LOOK_SECONDS, settings.HEARTBEAT_SECONDS)):
            beats = time.monotonic() >= next_beat or not self.alive
            try:
                if beats:
                    self._renew()
                    next_beat = time.monotonic() + settings.HEARTBEAT_SECONDS
                if beats or self.runs:
                    self._look(beats=beats)
            except DatabaseError:
                logger.warning("A beat could not be written; whether it was is unknown", exc_info=True)
                connections[database()].close()
            except Exception:
                logger.exception("The beat failed")

    def _renew(self) -> None:
        before = time.monotonic()
        if workers.renew(self.id):
            self.deadline = before + settings.LEASE_SECONDS
            return
        logger.error("This worker was taken for dead: its runs end here, and it begins again as a new one")
        self.deadline = 0.0
        for run in list(self.runs.values()):
            run.stop(errors.LeaseLostError())
        self.id = new_id()
        self._register()

    def _look(self, *, beats: bool) -> None:
        alive = dict(self.runs)
        held = workers.held_by(self.id)
        for thread_id, (_, mark) in held.items():
            run = alive.get(thread_id)
            if run is not None and mark == run.run_id:
                run.stop(errors.RunCancelledError())
        if beats:
            self._let_go(held)

    def _let_go(self, held: dict[UUID, tuple[int, UUID | None]]) -> None:
        """Free threads that name this worker but whose run is not alive: seen twice, so never one just taken."""
        orphans = {thread: fence for thread, (fence, _) in held.items() if thread not in self.runs}
        for thread_id, fence in orphans.items():
            if self._suspects.get(thread_id) == fence:
                saves.release(thread_id, self.id, fence)
        self._suspects = orphans

    # The end ---------------------------------------------------------------------------------------------------

    def stop(self, grace: float) -> None:
        """Take no new runs, give the live ones ``grace`` seconds, abandon the rest, and expire last.

        What is abandoned is interrupted at once, not after the time of the lease.
        """
        self.stopping = True
        if self._beating is None:
            return
        if grace:
            _wait_until(self._idle, grace)
        for run in list(self.runs.values()):
            run.stop(errors.ShuttingDownError())
        _wait_until(lambda: not self.runs, 2.0)
        self._awake.set()
        self._beating.join(2.0)
        try:
            workers.expire(self.id)
        except DatabaseError:
            logger.warning("This worker could not say goodbye; its lease runs out by itself", exc_info=True)
        finally:
            connections[database()].close()

    def _idle(self) -> bool:
        """No run is alive here, and none has just been taken."""
        if self.runs:
            return False
        try:
            return not workers.held_by(self.id)
        except DatabaseError:
            return True
        finally:
            connections[database()].close()  # none is held while the next look is waited for


def _wait_until(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)


def _leave_the_pool() -> None:
    """Give this thread a connection outside the pool: a pool that is exhausted must not cost the lease."""
    alias = database()
    own = connections[alias].copy()
    own.settings_dict["OPTIONS"] = {k: v for k, v in own.settings_dict["OPTIONS"].items() if k != "pool"}
    connections[alias] = own


_current: Worker | None = None
_making = threading.Lock()


def current() -> Worker:
    """This process's worker."""
    global _current
    with _making:
        if _current is None:
            _current = Worker()
        return _current


def stop_run(run_id: UUID, error: errors.CriogenError) -> None:
    """Stop a run at once if it is alive in this process; others hear of its mark within a second."""
    for run in list(current().runs.values()):
        if run.run_id == run_id:
            run.stop(error)


def stop_thread(thread_id: UUID, error: errors.CriogenError) -> None:
    """Stop whatever run of a thread is alive in this process."""
    if run := current().runs.get(thread_id):
        run.stop(error)


def forget() -> None:
    """Begin as a new worker: after a fork, and between two tests whose rows are gone."""
    global _current, _making
    _making = threading.Lock()
    if _current is not None:
        _current._awake.set()
    _current = None


def stop(grace: float | None = None) -> None:
    """Stop gracefully; see ``Worker.stop``."""
    if _current is not None:
        _current.stop(settings.GRACE_SECONDS if grace is None else grace)


os.register_at_fork(after_in_child=forget)
