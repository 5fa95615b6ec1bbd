"""How every write of the journal runs: one transaction, repeated when the connection is lost, then the signals."""

from __future__ import annotations

import logging
import time
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connections

from criogen_threads.conf import settings
from criogen_threads.engine.journal.statements import AlreadyWritten, Session, database
from criogen_threads.errors import DatabaseUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("criogen_threads")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
MOST_CONFLICTS = 5

_CONNECTION_CLASSES = ("08", "53", "57")  # connection lost, no resources, server stopping
_CONFLICT_CLASS = "40"  # deadlock, serialization failure
_CANCELLED = "57014"
_PAUSED_TOO_LONG = ("25P03", "25P04")  # an idle transaction, and one that took too long


def write(function: Callable[Concatenate[Session, P], T]) -> Callable[P, T]:
    """Make a function one transaction of the journal.

    A write whose connection is lost is repeated with the same ids for ``DATABASE_RETRY_SECONDS``. Whether a
    COMMIT without an answer took effect is asked below the thread's lock, so that nothing is written twice.

    Raises:
        DatabaseUnavailableError: ``database_unavailable``: it did not come back in time.
    """

    @wraps(function)
    def writing(*args: P.args, **kwargs: P.kwargs) -> T:
        patience = Patience()
        earlier: Session | None = None
        while True:
            session = Session(connections[database()], earlier)
            try:
                with session.transaction():
                    result = function(session, *args, **kwargs)
                    session.finished = True
                break
            except AlreadyWritten:
                break  # the attempt whose COMMIT got no answer had succeeded: its result stands
            except Exception as error:
                if session.took_effect():
                    logger.exception("A hook failed after its commit")
                    break
                if settings.IN_CALLING_THREAD or not is_passing(error):
                    raise
                connections[database()].close()
                patience.wait(error)
            earlier = session
        session.announce()
        return result

    return writing


def patiently(function: Callable[[], T]) -> T:
    """Do what may be done twice, such as reading: repeated while the database is away, like a write.

    Raises:
        DatabaseUnavailableError: ``database_unavailable``.
    """
    patience = Patience()
    while True:
        try:
            return function()
        except Exception as error:
            if settings.IN_CALLING_THREAD or not is_passing(error):
                raise
            connections[database()].close()
            patience.wait(error)


class Patience:
    """How long a write is repeated: for a time while the database is away, a few times after a conflict."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.pause = FIRST_PAUSE
        self.conflicts = 0

    def wait(self, error: Exception) -> None:
        """Pause before the next attempt.

        Raises:
            DatabaseUnavailableError: ``database_unavailable``: there should be none.
        """
        if is_conflict(error):
            self.conflicts += 1
            exhausted = self.conflicts > MOST_CONFLICTS
        else:
            exhausted = time.monotonic() + self.pause > self.began + settings.DATABASE_RETRY_SECONDS
        if exhausted:
            raise DatabaseUnavailableError from error
        time.sleep(self.pause)  # no connection is held here
        self.pause = min(2 * self.pause, LONGEST_PAUSE)


def is_passing(error: BaseException) -> bool:
    """Whether the same transaction may succeed when it is tried again."""
    state = _sqlstate(error)
    if isinstance(error, InterfaceError) or state in _PAUSED_TOO_LONG:  # the latter are InternalErrors
        return True
    if not isinstance(error, OperationalError):
        return False
    if state is None:
        return connections[database()].vendor != "sqlite" or "locked" in str(error)
    return is_conflict(error) or (state[:2] in _CONNECTION_CLASSES and state != _CANCELLED)


def is_conflict(error: BaseException) -> bool:
    """Whether the transaction was the victim of a deadlock or of another transaction."""
    return (_sqlstate(error) or "").startswith(_CONFLICT_CLASS)


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)
