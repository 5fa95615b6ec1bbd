"""Empty the database between two tests, fast.

Django truncates every table and writes content types and permissions anew. Here the few rows of a test are
deleted in one round trip, and what the migrations wrote stays.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django.apps import apps
from django.db import transaction

from criogen_threads.engine import dispatch, lease, pools
from criogen_threads.engine.dispatch.in_process import InProcess
from criogen_threads.engine.pools import database_pool, tool_pool

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from criogen_threads.engine.pools import DaemonPool

KEPT = {"django_content_type", "auth_permission", "django_migrations"}


def flush(connection: BaseDatabaseWrapper) -> None:
    """Delete every row of every model's table but what the migrations wrote."""
    quote = connection.ops.quote_name
    statements = [f"DELETE FROM {quote(table)}" for table in _tables(connection)]
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # A test that left a transaction open fails here instead of hanging; constraints wait for the end.
            cursor.execute(";".join(["SET LOCAL lock_timeout = '10s'", *statements]))
            return
        cursor.execute("PRAGMA defer_foreign_keys = ON")
        for statement in statements:
            cursor.execute(statement)


def stop_worker() -> None:
    """End this process's worker and the runs that a test left alive, and wait until its threads are done.

    The next turn begins as a new worker. A tool that hangs in its thread is waited for one second.
    """
    lease.stop(grace=0)
    _wait_for_dispatched_runs()
    lease.forget()
    deadline = time.monotonic() + 1
    while not all(map(_idle, (database_pool, tool_pool))) and time.monotonic() < deadline:
        time.sleep(0.001)


def _wait_for_dispatched_runs() -> None:
    """Submitted runs end when they find the worker stopped; one that found a new worker would go on."""
    dispatcher = dispatch._dispatcher
    deadline = time.monotonic() + 3
    while isinstance(dispatcher, InProcess) and dispatcher.active and time.monotonic() < deadline:
        lease.stop(grace=0)
        time.sleep(0.002)
    dispatch.close()


def works_here(pool: DaemonPool) -> bool:
    """Whether the thread that asks is one of the pool's."""
    return getattr(pools._here, "pool", None) is pool


def _idle(pool: DaemonPool) -> bool:
    """Whether no thread of a pool is at work but the one that asks."""
    with pool._changed:
        return not pool._jobs and pool._idle == pool._threads - works_here(pool)


def _tables(connection: BaseDatabaseWrapper) -> list[str]:
    present = set(connection.introspection.django_table_names(only_existing=True, include_views=False))
    models = apps.get_models(include_auto_created=True)
    wanted = [model._meta.db_table for model in models if model._meta.managed and not model._meta.proxy]
    return [table for table in dict.fromkeys(wanted) if table in present - KEPT]
