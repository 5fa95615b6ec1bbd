"""The Python API: handles on conversations.

``base`` holds what a handle is, ``speaking`` runs turns, ``cancelling`` stops them, ``answering`` decides approvals,
``changing`` rewinds and deletes, ``reading`` reads; ``handle`` is the sum of them. ``streamed`` tells what happens in a
call as it happens; ``agencies`` are the calls of an agency; ``syncing`` makes the ``_sync`` form of each call.
"""

from criogen_threads.engine.replies import Reply
from criogen_threads.threads.handle import ThreadHandle, handle_on, run_once, run_once_sync

__all__ = ["Reply", "ThreadHandle", "handle_on", "run_once", "run_once_sync"]
