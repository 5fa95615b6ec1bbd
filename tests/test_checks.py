"""What the system checks say, and when they keep quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import run_checks
from django.db import connections

from criogen_threads import checks
from criogen_threads.agents import Agent, registry
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.conf import KEYS, Settings
from criogen_threads.conf import settings as current

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper


def ids(*, deploy: bool = False) -> list[str]:
    found = run_checks(include_deployment_checks=deploy)
    return sorted(str(message.id) for message in found if str(message.id).startswith("criogen_threads."))


def test_nothing_to_say_about_the_suite() -> None:
    assert ids(deploy=True) == []


def test_every_default_is_a_valid_value(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {key: getattr(current, key) for key in KEYS if key != "POLICY"}
    assert ids() == []


def test_every_id_is_documented_once() -> None:
    table = [line.split()[0] for line in (checks.__doc__ or "").splitlines() if line.startswith("criogen_threads.")]
    assert len(table) == len(set(table)) == 13
    assert all(vars(checks)["__doc__"].count(entry) == 1 for entry in table)


def test_numbers_that_must_not_be_zero_are_settings() -> None:
    assert set(Settings.__dict__) >= checks.POSITIVE
    assert set(checks.DOTTED) <= KEYS


@pytest.mark.parametrize("value", [None, [], "wait"])
def test_the_settings_must_be_a_dict(settings: SettingsWrapper, value: object) -> None:
    settings.CRIOGEN_THREADS = value
    assert ids(deploy=True) == ["criogen_threads.E001"]


def test_an_unknown_key(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUTS": 3}
    (message,) = checks.check_settings()
    assert (message.id, "BUSY_TIMEOUT" in str(message.hint)) == ("criogen_threads.W001", True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ON_BUSY", "queue"),
        ("ON_BUSY", []),
        ("BUSY_TIMEOUT", "60"),
        ("BUSY_TIMEOUT", -1),
        ("BUSY_TIMEOUT", float("nan")),
        ("BUSY_TIMEOUT", float("inf")),
        ("LEASE_SECONDS", 0),
        ("SOCKET_SECONDS", 0),
        ("RECHECK_SECONDS", 0),
        ("GRACE_SECONDS", None),
        ("MAX_RUNS", 2.5),
        ("MAX_RUNS", True),
        ("MAX_RUNS", 0),
        ("MODEL_RETRIES", -1),
        ("IN_CALLING_THREAD", 1),
        ("DISPATCHER", "threads"),
        ("DISPATCHER", ["tasks"]),
        ("POLICY", "criogen_threads.nowhere.Policy"),
        ("POLICY", "criogen_threads.errors.Policy"),
    ],
)
def test_a_value_that_it_cannot_have(settings: SettingsWrapper, key: str, value: object) -> None:
    settings.CRIOGEN_THREADS = {key: value}
    (message,) = checks.check_settings()
    assert message.id == "criogen_threads.E002"
    assert key in message.msg


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ON_BUSY", "reject"),
        ("BUSY_TIMEOUT", 0),
        ("MODEL_RETRIES", 0),
        ("LEASE_SECONDS", 45.5),
        ("DISPATCHER", "celery"),
        ("DISPATCHER", "criogen_threads.errors.CriogenError"),
    ],
)
def test_a_value_that_it_can_have(settings: SettingsWrapper, key: str, value: object) -> None:
    settings.CRIOGEN_THREADS = {key: value}
    assert ids() == []


@pytest.mark.parametrize(("beat", "expected"), [(10, []), (10.5, ["W002"]), (30, ["E003"]), (31, ["E003"])])
def test_the_heartbeat_against_the_lease(settings: SettingsWrapper, beat: float, expected: list[str]) -> None:
    settings.CRIOGEN_THREADS = {"LEASE_SECONDS": 30, "HEARTBEAT_SECONDS": beat}
    assert ids() == [f"criogen_threads.{name}" for name in expected]


@pytest.fixture
def database_entry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    entry: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "OPTIONS": {}, "CONN_MAX_AGE": 0}
    monkeypatch.setitem(connections.settings, "default", entry)
    return entry


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["criogen_threads.E004"]),
        ({"transaction_mode": "DEFERRED"}, ["criogen_threads.E004"]),
        ({"transaction_mode": None}, ["criogen_threads.E004"]),
        ({"transaction_mode": "immediate"}, []),
    ],
)
def test_sqlite_needs_immediate_transactions(
    database_entry: dict[str, Any], options: dict[str, object], expected: list[str]
) -> None:
    database_entry["OPTIONS"] = options
    assert [message.id for message in checks.check_database()] == expected


def test_other_databases_need_no_transaction_mode(database_entry: dict[str, Any]) -> None:
    database_entry["ENGINE"] = "django.db.backends.postgresql"
    assert list(checks.check_database()) == []


@pytest.mark.parametrize(
    ("age", "application", "expected"),
    [
        (0, "project.asgi.application", []),
        (60, None, []),
        (60, "project.asgi.application", ["criogen_threads.W003"]),
        (None, "project.asgi.application", ["criogen_threads.W003"]),
    ],
)
def test_persistent_connections_under_asgi(
    settings: SettingsWrapper,
    database_entry: dict[str, Any],
    age: int | None,
    application: str | None,
    expected: list[str],
) -> None:
    database_entry.update(ENGINE="django.db.backends.postgresql", CONN_MAX_AGE=age)
    settings.ASGI_APPLICATION = application
    assert [message.id for message in checks.check_database()] == expected


@pytest.mark.parametrize(
    ("dispatcher", "tasks", "expected"),
    [
        ("in_process", None, []),
        ("tasks", None, ["criogen_threads.W004"]),
        (
            "tasks",
            {"default": {"BACKEND": "django_tasks.backends.dummy.DummyBackend"}},
            ["criogen_threads.W004"],
        ),
        ("tasks", {"default": {"BACKEND": "django_tasks.backends.database.DatabaseBackend"}}, []),
    ],
)
def test_a_task_backend_that_runs_nothing_in_the_background(
    settings: SettingsWrapper, dispatcher: str, tasks: dict[str, Any] | None, expected: list[str]
) -> None:
    settings.CRIOGEN_THREADS = {"DISPATCHER": dispatcher}
    if tasks:
        settings.TASKS = tasks
    assert [message.id for message in checks.check_tasks()] == expected
    assert "criogen_threads.W004" not in ids()


@pytest.mark.parametrize(
    ("debug", "layer", "expected"),
    [
        (True, checks.MEMORY_LAYER, []),
        (False, checks.MEMORY_LAYER, ["criogen_threads.W005"]),
        (False, "channels_redis.pubsub.RedisPubSubChannelLayer", []),
    ],
)
def test_the_in_memory_channel_layer(settings: SettingsWrapper, debug: bool, layer: str, expected: list[str]) -> None:
    settings.DEBUG = debug
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": layer}}
    assert [message.id for message in checks.check_channel_layer()] == expected


def agent(name: str) -> Agent:
    return Agent(name, model=ScriptedModel.of("Hello"))


@pytest.fixture
def twice_registered() -> Iterator[str]:
    for module in ("shop.agents", "warehouse.agents"):
        exec("register(agent)", {"__name__": module, "register": registry.register, "agent": agent("twin")})
    yield "twin"
    registry.unregister("twin")


def test_two_agents_of_one_name(twice_registered: str) -> None:
    (message,) = checks.check_agents()
    assert message.id == "criogen_threads.E005"
    assert all(part in message.msg for part in ("'twin'", "shop.agents", "warehouse.agents"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"NOTIFY_WEBHOOK": "https://a", "NOTIFY_SECRET": "s", "NOTIFY_SITE": "https://b"}, []),
        ({"NOTIFY_EMAIL": True, "NOTIFY_SITE": "http://b"}, []),
        ({"NOTIFY_WEBHOOK": "https://a", "NOTIFY_SITE": "https://b"}, ["E006"]),
        ({"NOTIFY_WEBHOOK": "ftp://a", "NOTIFY_SECRET": "s", "NOTIFY_SITE": "https://b"}, ["E006"]),
        ({"NOTIFY_EMAIL": True, "NOTIFY_SITE": "b.example"}, ["E006"]),
        ({"NOTIFY_SECRET": "s"}, ["W006"]),
        ({"NOTIFY_EMAIL": True}, ["W006"]),
        ({"NOTIFY_SITE": "https://b"}, ["W006"]),
    ],
)
def test_notices_that_are_half_set(settings: SettingsWrapper, given: dict[str, object], expected: list[str]) -> None:
    settings.CRIOGEN_THREADS = given
    assert ids() == [f"criogen_threads.{name}" for name in expected]


@pytest.mark.parametrize("dispatcher", ["celery", "tasks"])
def test_a_dispatcher_whose_package_is_missing(
    settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch, dispatcher: str
) -> None:
    settings.CRIOGEN_THREADS = {"DISPATCHER": dispatcher}
    monkeypatch.setitem(checks.PACKAGES, dispatcher, ["no_such_package", "django.core"])  # one of them is enough
    assert ids() == []
    monkeypatch.setitem(checks.PACKAGES, dispatcher, ["no_such_package", "no_such_package.of_this"])
    assert ids() == ["criogen_threads.E007"]
