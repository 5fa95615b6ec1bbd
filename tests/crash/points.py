"""The moments at which a process can die: around every commit, and inside every tool.

Nothing is listed by hand. A probe that is installed in a process hears of every commit of its connections, of
statements that commit themselves too, and of what the tools tell it. A first run learns which points there
are; later ones die, or stop, at one of them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

if TYPE_CHECKING:
    from collections.abc import Callable

READS = ("SELECT", "SET ", "PRAGMA", "SHOW", "WITH", "BEGIN")
ENGINE = f"{os.sep}criogen_threads{os.sep}"


class Probe:
    """Hears of every point that this process reaches.

    Args:
        at: The point at which ``end`` is sent to this process; None to go on to the end.
        end: SIGKILL, or SIGSTOP for a process that is only paused.
    """

    def __init__(self, at: str | None = None, end: signal.Signals = signal.SIGKILL) -> None:
        self.at = at
        self.end = end
        self.armed = False
        self.seen: list[str] = []
        self._times: Counter[str] = Counter()
        self._one_at_a_time = threading.Lock()

    def reach(self, what: str) -> None:
        """Note a point, and end here if this is the one. The same point again is another one."""
        if not self.armed or threading.current_thread().name == "criogen-beat":
            return
        with self._one_at_a_time:
            self._times[what] += 1
            name = f"{what} #{self._times[what]}"
            self.seen.append(name)
            if name == self.at:
                signal.pthread_kill(threading.get_ident(), self.end)  # to this very thread, which gets no further

    def install(self) -> None:
        """Listen to the connections of this process."""
        probe, commit = self, BaseDatabaseWrapper._commit  # type: ignore[attr-defined]

        def committing(connection: BaseDatabaseWrapper) -> Any:
            writer = _writer()
            probe.reach(f"before the commit of {writer}")
            result = commit(connection)
            probe.reach(f"after the commit of {writer}")
            return result

        BaseDatabaseWrapper._commit = committing  # type: ignore[attr-defined]
        connection_created.connect(self._listen, weak=False)

    def _listen(self, connection: BaseDatabaseWrapper, **_: Any) -> None:
        if self._watch not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._watch)

    def _watch(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        """A statement outside a transaction is a commit too."""
        if context["connection"].in_atomic_block or sql.lstrip().upper().startswith(READS):
            return execute(sql, params, many, context)
        writer = _writer()
        self.reach(f"before the statement of {writer}")
        result = execute(sql, params, many, context)
        self.reach(f"after the statement of {writer}")
        return result


def _writer() -> str:
    """The function of the package whose write this is."""
    frame: Any = sys._getframe(2)
    nearest = ""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "writing" and ENGINE in code.co_filename:
            return str(frame.f_locals["function"].__name__)
        if not nearest and ENGINE in code.co_filename and "manage" not in code.co_name:
            nearest = code.co_name
        frame = frame.f_back
    return nearest or "the site"
