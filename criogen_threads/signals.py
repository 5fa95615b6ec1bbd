"""Signals: what other apps may want to hear about.

Each is sent after the commit of the rows that it speaks of, at most once, in the thread that committed; a
receiver that raises is logged and hurts nobody. They are a convenience: a process that dies between the
commit and the signal never sends it. The events of a thread are the record.

The sender is the Thread class; every signal has ``thread``, the key of the thread, and ``thread_id``, its
UUID.
"""

from __future__ import annotations

from django.dispatch import Signal

run_started = Signal()
"""A run began or went on (a retry, an answered approval). Arguments: ``run_id``, ``agent``, ``attempt``."""

run_suspended = Signal()
"""A run waits for people. Arguments: ``run_id``, ``agent``, ``pending``, how many approvals it waits for."""

run_finished = Signal()
"""A run ended. Arguments: ``run_id``, ``agent``, ``status`` ("completed" or "failed"), ``error_code`` (""
when completed)."""

approval_requested = Signal()
"""A tool call needs an answer. Arguments: ``run_id``, ``call_id``, ``tool``, ``approver`` ("owner" or
"staff")."""

approval_decided = Signal()
"""An approval was answered, or expired. Arguments: ``run_id``, ``call_id``, ``tool``, ``approved`` (bool),
``decided_by``, the primary key of the user or None."""

thread_rewound = Signal()
"""A thread goes on from an older checkpoint. Arguments: ``checkpoint_id``, the one that was copied (None: the
beginning), and ``head``, the new one."""

thread_deleted = Signal()
"""A thread and all its rows are gone. No further arguments."""
