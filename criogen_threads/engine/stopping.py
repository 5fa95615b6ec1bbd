"""The graceful stop of this process.

It hangs on ``atexit``, which daphne and gunicorn run; a server that does not run it calls ``stop`` itself. The
package installs no signal handler.
"""

from __future__ import annotations

import atexit

from criogen_threads.engine import background
from criogen_threads.engine import lease as leases


def stop(grace: float | None = None) -> None:
    """Take no new runs, give the live ones ``grace`` seconds (default ``GRACE_SECONDS``), abandon the rest.

    What is abandoned is interrupted, and queued runs may be dispatched by others, from this moment on.
    """
    leases.stop(grace)
    background.stop()


atexit.register(stop)
