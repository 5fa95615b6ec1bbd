"""What a worker of a task queue does with what it is handed: run it to its end, blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from criogen_threads.engine import background
from criogen_threads.engine.dispatch.executing import execute, execute_due, execute_retry

if TYPE_CHECKING:
    from criogen_threads.engine.dispatch.base import Dispatcher

STAYS = 5.0
"""Seconds that a run waits for its thread in a worker before it goes back to the end of the queue."""


def work(dispatcher: Dispatcher, what: str, name: str) -> None:
    """Execute a run, an answered thread or an accepted retry.

    Args:
        dispatcher: Where a run goes whose thread was not free in time.
        what: "submit", "resume" or "retry".
        name: The id of the run; for "resume" the key of the thread.
    """
    match what:
        case "submit":
            if not background.run(execute, UUID(name), dispatcher.stays):
                dispatcher.submit(UUID(name))
        case "resume":
            background.run(execute_due, name)
        case "retry":
            background.run(execute_retry, UUID(name))
        case _:
            raise ValueError(f"there is no job named {what!r}")
