"""System checks: what would make conversations stall, break or get lost, said before it does.

=====================  =================================================================================
criogen_threads.E001   CRIOGEN_THREADS is not a dict.
criogen_threads.E002   A value in CRIOGEN_THREADS is of the wrong kind, out of range, or does not import.
criogen_threads.E003   HEARTBEAT_SECONDS is not below LEASE_SECONDS: every process would count as dead.
criogen_threads.E004   SQLite without ``transaction_mode: IMMEDIATE``: saves fail, the database "is locked".
criogen_threads.E005   Two modules register agents of one name.
criogen_threads.E006   NOTIFY_WEBHOOK without NOTIFY_SECRET, or an address of notices that is not http(s): none is sent.
criogen_threads.E007   DISPATCHER names a package that is not installed.
criogen_threads.W001   An unknown key in CRIOGEN_THREADS.
criogen_threads.W002   HEARTBEAT_SECONDS is over a third of LEASE_SECONDS: a late beat loses the lease.
criogen_threads.W003   CONN_MAX_AGE is not 0 under ASGI: connections of threads are never given back.
criogen_threads.W004   (deploy) DISPATCHER is "tasks", and the task backend runs nothing in the background.
criogen_threads.W005   (deploy) The in-memory channel layer: other processes hear nothing.
criogen_threads.W006   A setting of notices that has no effect, or half of it, without another one.
=====================  =================================================================================
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from django.conf import settings as django_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.module_loading import import_string

from criogen_threads.agents.registry import conflicts
from criogen_threads.conf import KEYS, Settings, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = [
    "LEASE_SECONDS", "HEARTBEAT_SECONDS", "MODEL_TIMEOUT", "SOCKET_SECONDS", "RECHECK_SECONDS", "VISITOR_SECONDS",
]  # fmt: skip
COUNTS = [
    "MAX_RUNS", "MAX_RUNS_PER_USER", "DATABASE_THREADS", "TOOL_THREADS", "MAX_MESSAGE_BYTES", "MAX_RESULT_BYTES",
    "VISITOR_THREADS", "VISITOR_RUNS",
]  # fmt: skip
POSITIVE = frozenset([*SECONDS, "TICKET_SECONDS", *COUNTS])
"""Numbers that must not be 0; no number may be negative."""

DOTTED = {"POLICY": frozenset[str](), "DISPATCHER": frozenset({"in_process", "tasks", "celery"})}
"""Dotted paths, and the short names that may stand in their place."""

PACKAGES = {"celery": ["celery"], "tasks": ["django.tasks", "django_tasks"]}
"""Modules of which a dispatcher needs one."""

MEMORY_LAYER = "channels.layers.InMemoryChannelLayer"
FOREGROUND_BACKENDS = (".immediate.ImmediateBackend", ".dummy.DummyBackend")


@register(Tags.compatibility)
def check_settings(**_: Any) -> list[CheckMessage]:
    """E001, E002, W001, E003, W002."""
    values = _values()
    if not isinstance(values, dict):
        return [Error("CRIOGEN_THREADS must be a dict.", id="criogen_threads.E001")]
    unknown = [
        checks.Warning(
            f"CRIOGEN_THREADS has no key {key!r}.",
            hint=f"Known: {', '.join(sorted(KEYS))}.",
            id="criogen_threads.W001",
        )
        for key in values
        if key not in KEYS
    ]
    wrong = [
        Error(f"CRIOGEN_THREADS[{key!r}] must be {wanted}, not {value!r}.", id="criogen_threads.E002")
        for key, value in values.items()
        if key in KEYS and (wanted := _wanted(key, value))
    ]
    return [*unknown, *wrong] if wrong else [*unknown, *_check_heartbeat()]


def _wanted(key: str, value: Any) -> str:
    """What the value should be; "" where it is."""
    kind = get_type_hints(vars(Settings)[key].fget)["return"]
    if type(None) in get_args(kind):
        if value is None:
            return ""
        [kind] = set(get_args(kind)) - {type(None)}
    if get_origin(kind) is Literal:
        return "" if value in get_args(kind) else "one of " + ", ".join(map(repr, get_args(kind)))
    if kind is bool:
        return "" if isinstance(value, bool) else "True or False"
    if kind in {int, float}:
        return _wanted_number(key, value, whole=kind is int)
    if key in DOTTED:
        fits = isinstance(value, str) and (value in DOTTED[key] or _imports(value))
        return "" if fits else "a dotted path that can be imported"
    if get_origin(kind) is list:
        fits = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        return "" if fits else "a list of text"
    return "" if isinstance(value, kind) else f"of the type {kind.__name__}"


def _wanted_number(key: str, value: Any, *, whole: bool) -> str:
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if fits and math.isfinite(value) and (value > 0 or (value == 0 and key not in POSITIVE)):
        return ""
    return ("a whole number" if whole else "a number") + (" above 0" if key in POSITIVE else ", 0 or more")


def _imports(path: str) -> bool:
    try:
        import_string(path)
    except (ImportError, AttributeError):
        return False
    return True


def _check_heartbeat() -> Iterator[CheckMessage]:
    beat, lease = settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS
    if beat >= lease:
        yield Error(
            f"HEARTBEAT_SECONDS ({beat:g}) must be below LEASE_SECONDS ({lease:g}).",
            hint="A third of it or less.",
            id="criogen_threads.E003",
        )
    elif beat * 3 > lease:
        yield checks.Warning(
            f"HEARTBEAT_SECONDS ({beat:g}) is over a third of LEASE_SECONDS ({lease:g}).",
            hint="One late beat then loses the lease.",
            id="criogen_threads.W002",
        )


@register(Tags.compatibility)
def check_notices(**_: Any) -> Iterator[CheckMessage]:
    """E006, W006."""
    if not isinstance(_values(), dict):
        return
    for key in ("NOTIFY_WEBHOOK", "NOTIFY_SITE"):
        if not str(getattr(settings, key) or "https://").startswith(("https://", "http://")):
            yield Error(f"{key} must begin with https:// or http://.", id="criogen_threads.E006")
    if settings.NOTIFY_WEBHOOK and not settings.NOTIFY_SECRET:
        yield Error(
            "NOTIFY_WEBHOOK needs NOTIFY_SECRET.",
            hint="Unsigned notices are not sent: anybody could make them.",
            id="criogen_threads.E006",
        )
    if settings.NOTIFY_SECRET and not settings.NOTIFY_WEBHOOK:
        yield checks.Warning("NOTIFY_SECRET signs nothing without NOTIFY_WEBHOOK.", id="criogen_threads.W006")
    if (settings.NOTIFY_EMAIL or settings.NOTIFY_WEBHOOK) and not settings.NOTIFY_SITE:
        yield checks.Warning(
            "Without NOTIFY_SITE notices have no link to the approval.",
            hint='CRIOGEN_THREADS = {"NOTIFY_SITE": "https://example.com"}',
            id="criogen_threads.W006",
        )
    if settings.NOTIFY_SITE and not (settings.NOTIFY_EMAIL or settings.NOTIFY_WEBHOOK):
        yield checks.Warning(
            "NOTIFY_SITE is for notices, and neither NOTIFY_EMAIL nor NOTIFY_WEBHOOK is set.",
            id="criogen_threads.W006",
        )


@register(Tags.compatibility)
def check_dispatcher(**_: Any) -> Iterator[CheckMessage]:
    """E007."""
    values = _values()
    dispatcher = values.get("DISPATCHER") if isinstance(values, dict) else None
    wanted = PACKAGES.get(dispatcher) if isinstance(dispatcher, str) else None
    if wanted and not any(map(_is_installed, wanted)):
        yield Error(
            f'DISPATCHER is "{dispatcher}", and {wanted[-1]} is not installed.',
            hint=f"pip install 'criogen-threads[{dispatcher}]'",
            id="criogen_threads.E007",
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


@register(Tags.compatibility)
def check_database(**_: Any) -> Iterator[CheckMessage]:
    """E004, W003."""
    entry = connections.settings[DEFAULT_DB_ALIAS]
    mode = str(entry["OPTIONS"].get("transaction_mode", "")).upper()
    if entry["ENGINE"].endswith("sqlite3") and mode != "IMMEDIATE":
        yield Error(
            "SQLite needs immediate transactions.",
            hint='DATABASES["default"]["OPTIONS"] = {"transaction_mode": "IMMEDIATE"}',
            id="criogen_threads.E004",
        )
    if entry["CONN_MAX_AGE"] != 0 and getattr(django_settings, "ASGI_APPLICATION", None):
        yield checks.Warning(
            "CONN_MAX_AGE must be 0 under ASGI.",
            id="criogen_threads.W003",
            hint='For PostgreSQL use a pool: "OPTIONS": {"pool": True}.',
        )


@register(Tags.compatibility)
def check_agents(**_: Any) -> list[CheckMessage]:
    """E005."""
    return [Error(str(conflict), hint="The first one counts.", id="criogen_threads.E005") for conflict in conflicts()]


@register(Tags.compatibility, deploy=True)
def check_tasks(**_: Any) -> Iterator[CheckMessage]:
    """W004."""
    backend = _backend("TASKS", "django.tasks.backends.immediate.ImmediateBackend")
    values = _values()
    dispatcher = values.get("DISPATCHER") if isinstance(values, dict) else None
    if dispatcher == "tasks" and backend.endswith(FOREGROUND_BACKENDS):
        yield checks.Warning(
            f"{backend} runs no task in the background.",
            id="criogen_threads.W004",
            hint='Name another backend in TASKS, or leave DISPATCHER at "in_process".',
        )


@register(Tags.compatibility, deploy=True)
def check_channel_layer(**_: Any) -> Iterator[CheckMessage]:
    """W005."""
    if not django_settings.DEBUG and _backend("CHANNEL_LAYERS", "") == MEMORY_LAYER:
        yield checks.Warning(
            "The in-memory channel layer reaches one process only.",
            id="criogen_threads.W005",
            hint="Use channels_redis, or no channel layer with a single process.",
        )


def _values() -> Any:
    return getattr(django_settings, "CRIOGEN_THREADS", {})


def _backend(setting: str, default: str) -> str:
    return str(getattr(django_settings, setting, {}).get("default", {}).get("BACKEND", default))
