"""Requests that wait: a few at a time, and holding no database connection."""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connections

from criogen_threads.conf import settings
from criogen_threads.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rest_framework.request import Request

LONGEST = 30.0
"""Seconds that a request may wait."""

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.5

_counting = threading.Lock()
_waiting = 0


def seconds(request: Request) -> float:
    """``?wait=SECONDS``: 0 without it, 30 where it says no number.

    Raises:
        InvalidOptionError: ``invalid_option``.
    """
    text = request.query_params.get("wait")
    if text is None:
        return 0.0
    try:
        value = float(text or LONGEST)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LONGEST:
        raise InvalidOptionError(f"wait is a number of seconds, at most {LONGEST:g}")
    return value


def release() -> None:
    """Give this thread's connections back: it waits now, and whom it waits for may need one of the pool."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


@contextmanager
def place(wanted: float) -> Iterator[float]:
    """Seconds that this request may wait: what it wants, or 0 where ``WAITING_REQUESTS`` wait already."""
    global _waiting
    with _counting:
        granted = wanted > 0 and _waiting < settings.WAITING_REQUESTS
        _waiting += granted
    try:
        yield wanted if granted else 0.0
    finally:
        with _counting:
            _waiting -= granted


def until(look: Callable[[], bool], wanted: float) -> bool:
    """Look again and again until it is true; False when the time is over. No connection is held meanwhile."""
    if look():
        return True
    with place(wanted) as granted:
        deadline = time.monotonic() + granted
        pause = FIRST_PAUSE
        while (left := deadline - time.monotonic()) > 0:
            release()
            time.sleep(min(pause, left))
            if look():
                return True
            pause = min(LONGEST_PAUSE, pause * 1.5)
    return False
