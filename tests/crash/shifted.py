"""A process whose own clock is wrong, for everything that Python asks for the time of day.

``python -m tests.crash.shifted SECONDS KEY FOLDER`` turns the clock before anything else is loaded, then does what
it is told, one word a line, and answers each with one line of JSON.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from typing import Any


def turn_the_clock(seconds: float) -> None:
    """Shift ``time.time``, ``datetime.now`` and the time in new ids; the monotonic clock stays."""
    real_time, real = time.time, datetime.datetime

    class Kind(type):
        """Moments that were made elsewhere are of the shifted kind too."""

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real)

    class Shifted(real, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real.now(tz) + datetime.timedelta(seconds=seconds)

    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: int((real_time() + seconds) * 1e9)
    datetime.datetime = Shifted  # type: ignore[misc]

    from uuid_utils import compat

    compat.uuid7 = lambda made=compat.uuid7: made(nanoseconds=time.time_ns())


def serve(key: str, folder: str) -> None:
    import django

    django.setup()
    from django.conf import settings

    from tests.crash import timed

    settings.CRIOGEN_THREADS = timed.SETTINGS
    handle = timed.agent(folder).thread(key)
    for line in sys.stdin:
        print(json.dumps(timed.obey(handle, *line.split())), flush=True)


if __name__ == "__main__":
    turn_the_clock(float(sys.argv[1]))
    serve(*sys.argv[2:])
