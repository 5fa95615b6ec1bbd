"""Submitted runs: who executes them, and what becomes of those that a dead process left.

``submit``, ``resume`` and ``retry`` hand an id to the dispatcher that the site chose (``DISPATCHER``): ``in_process``,
``tasks``, ``celery``, or one of its own on top of ``base``. What it does with it in the end is ``executing``, and
``jobs`` where that is to block. What is handed over is saved before, and the handing over never fails a caller.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from django.utils.module_loading import import_string

from criogen_threads.conf import settings
from criogen_threads.engine.dispatch.base import Dispatcher
from criogen_threads.engine.journal import leftovers

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["Dispatcher", "attend", "close", "get_dispatcher", "resume", "retry", "submit"]

logger = logging.getLogger("criogen_threads")

NAMED = {
    "in_process": f"{__name__}.in_process.InProcess",
    "tasks": f"{__name__}.tasks.Tasks",
    "celery": f"{__name__}.celery.Celery",
}

_dispatcher: Dispatcher | None = None


def get_dispatcher() -> Dispatcher:
    """The dispatcher that the site chose."""
    global _dispatcher
    wanted = import_string(NAMED.get(settings.DISPATCHER, settings.DISPATCHER))
    if _dispatcher is None or type(_dispatcher) is not wanted:
        close()
        _dispatcher = wanted()
    return _dispatcher


def close() -> None:
    """Let the dispatcher go; the next run that is handed over makes a new one."""
    global _dispatcher
    if _dispatcher is not None:
        _dispatcher.close()
    _dispatcher = None


def attend() -> None:
    """Have this process look for runs that nobody executes, also where it has submitted none itself."""
    get_dispatcher().attend()


def submit(run_id: UUID) -> None:
    """Have a queued run executed."""
    try:
        get_dispatcher().submit(run_id)
    except Exception:
        logger.exception("The run %s could not be handed over; it is left to criogen_recover", run_id)
        leftovers.forsake(run_id)


def resume(key: str) -> None:
    """Have a fully answered run taken up again."""
    try:
        get_dispatcher().resume(key)
    except Exception:
        logger.exception("The answered run of %s could not be handed over; it is left to criogen_recover", key)


def retry(run_id: UUID) -> None:
    """Have a run continued whose retry was accepted."""
    try:
        get_dispatcher().retry(run_id)
    except Exception:
        logger.exception("The retry of %s could not be handed over; it is left to criogen_recover", run_id)


def _forget() -> None:
    global _dispatcher
    _dispatcher = None


os.register_at_fork(after_in_child=_forget)
