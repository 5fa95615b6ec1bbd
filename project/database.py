"""The database that a URL names, as Django's settings want it."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

POOL = {"min_size": 1, "max_size": 20, "timeout": 30}
PREPARE_AFTER = 5  # psycopg's own default; None behind a transaction-mode pooler that forgets what was prepared


def database(url: str) -> dict[str, Any]:
    """One entry of ``DATABASES``.

    Args:
        url: ``postgres://user:password@host:5432/name?sslmode=require`` (any form that libpq reads), or
            ``sqlite:///relative/path`` or ``sqlite:////absolute/path``.

    Raises:
        ImproperlyConfigured: The URL is of neither form.
    """
    scheme, _, rest = url.partition("://")
    if scheme in {"postgres", "postgresql"}:
        return _postgresql(url)
    if scheme == "sqlite" and rest.startswith("/") and rest != "/":
        return _sqlite(rest.removeprefix("/"))
    raise ImproperlyConfigured("DATABASE_URL is neither postgres://… nor sqlite:///path")


def _sqlite(path: str) -> dict[str, Any]:
    """One writer at a time, which waits its turn; readers never wait."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def _postgresql(url: str) -> dict[str, Any]:
    """Connections from a pool: under ASGI a persistent one per thread would never be given back."""
    from psycopg.conninfo import conninfo_to_dict  # not needed on SQLite

    parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**parts, "pool": dict(POOL), "prepare_threshold": PREPARE_AFTER},
    }
