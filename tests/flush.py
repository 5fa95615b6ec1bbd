"""Empty the database between two tests, fast.

Django truncates every table and writes content types and permissions anew. Here the few rows of a test are
deleted in one round trip, and what the migrations wrote stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps
from django.db import transaction

from criogen_threads.engine import lease

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

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
    """End this process's worker and the runs that a test left alive: the next turn begins as a new worker."""
    lease.stop(grace=0)
    lease.forget()


def _tables(connection: BaseDatabaseWrapper) -> list[str]:
    present = set(connection.introspection.django_table_names(only_existing=True, include_views=False))
    models = apps.get_models(include_auto_created=True)
    wanted = [model._meta.db_table for model in models if model._meta.managed and not model._meta.proxy]
    return [table for table in dict.fromkeys(wanted) if table in present - KEPT]
