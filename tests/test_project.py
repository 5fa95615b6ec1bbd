"""The repository, the package and the site: what the design card promises about them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

import criogen_threads
from criogen_threads.models import Checkpoint, Run, Thread
from project.database import database
from tests.processes import ROOT, child_environment, run_child

if TYPE_CHECKING:
    from collections.abc import Mapping

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOP_LEVEL = {"manage.py", "pyproject.toml", "criogen_threads", "project", "templates", "tests", "README.md"}
BESIDE = {"CHANGELOG.md", "LICENSE", "benchmarks", "docs"}


def tracked_names() -> set[str]:
    """Names at the top level, hidden and ignored ones aside."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    names = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    return {name for name in names if name not in ignored and not Path(name).match("*.sqlite3*")} - {"__pycache__"}


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the site's own manage.py, with the settings of the site."""
    env = {key: value for key, value in os.environ.items() if key not in {"DEBUG", "SECRET_KEY", "DATABASE_URL"}}
    env |= {"DJANGO_SETTINGS_MODULE": "project.settings", **environment}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, text=True, capture_output=True, timeout=120)


def test_c1_an_app_with_a_name_and_the_versions_that_it_is_for() -> None:
    assert apps.get_app_config("criogen_threads").name == "criogen_threads"
    assert PYPROJECT["requires-python"] == ">=3.11"
    assert "django>=5.2,<6.2" in PYPROJECT["dependencies"]
    assert PYPROJECT["version"] == criogen_threads.__version__


def test_c1_importing_the_package_imports_no_models() -> None:
    loaded = "import sys, criogen_threads; print([name for name in sys.modules if name.startswith('django')])"
    answer = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_c2_the_packages_that_it_builds_on() -> None:
    named = {requirement.partition(">")[0] for requirement in PYPROJECT["dependencies"]}
    assert {"django", "djangorestframework", "channels", "psycopg[binary,pool]", "daphne"} <= named
    for_tests = {requirement.partition(">")[0] for requirement in PYPROJECT["optional-dependencies"]["dev"]}
    assert {"pytest-django", "factory-boy"} <= for_tests


def test_c3_the_top_level() -> None:
    names = tracked_names()
    assert names >= TOP_LEVEL
    assert names - TOP_LEVEL <= BESIDE


@pytest.mark.django_db
def test_c4_the_models_are_there_and_can_be_locked() -> None:
    assert {model.__name__ for model in apps.get_app_config("criogen_threads").get_models()} >= {
        "Thread",
        "Checkpoint",
        "Run",
    }
    with CaptureQueriesContext(connection) as queries:
        for model in (Thread, Checkpoint, Run):
            assert list(model._base_manager.select_for_update()) == []
    locking = ["FOR UPDATE" in query["sql"] for query in queries]
    assert locking == [connection.vendor == "postgresql"] * 3


def test_the_site_passes_its_checks() -> None:
    done = manage("check", "--fail-level", "INFO")
    assert done.returncode == 0, done.stderr


def test_the_site_passes_the_checks_of_a_deployment() -> None:
    done = manage("check", "--deploy", "--fail-level", "INFO", SECRET_KEY="k3y-" * 16 + "abcdefgh", ALLOWED_HOSTS="a.b")
    assert done.returncode == 0, done.stderr


def test_the_site_does_not_start_without_a_secret_key_in_production() -> None:
    done = manage("check", DEBUG="0")
    assert done.returncode != 0
    assert "SECRET_KEY" in done.stderr


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", check=True, dry_run=True, stdout=StringIO())


def test_the_site_migrates_from_zero_and_back(tmp_path: Path, private_database: Mapping[str, str]) -> None:
    for arguments in (
        ["migrate"],
        ["migrate", "criogen_threads", "zero"],
        ["migrate", "desk", "zero"],
        ["migrate"],
    ):
        done = manage(*arguments, **private_database)
        assert done.returncode == 0, done.stderr
    tables = "from django.db import connection as c; print(*sorted(c.introspection.table_names()))"
    listed = manage("shell", "--no-imports", "-c", tables, **private_database).stdout.split()
    assert {
        "criogen_threads_thread",
        "criogen_threads_run",
        "criogen_threads_checkpoint",
        "desk_order",
    } <= set(listed)
    assert manage("migrate", "criogen_threads", "zero", **private_database).returncode == 0
    left = manage("shell", "--no-imports", "-c", tables, **private_database).stdout.split()
    assert not [table for table in left if table.startswith("criogen_")]


@pytest.fixture
def private_database(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """An empty database of the kind that the suite runs on."""
    if connection.vendor == "sqlite":
        return {"DATABASE_URL": f"sqlite:///{tmp_path / 'db.sqlite3'}"}
    return {"DATABASE_URL": request.getfixturevalue("private_postgres").url}


def test_the_address_of_a_sqlite_database() -> None:
    assert database("sqlite:///there.sqlite3")["NAME"] == "there.sqlite3"
    entry = database("sqlite:////tmp/here.sqlite3")
    assert entry["NAME"] == "/tmp/here.sqlite3"
    assert entry["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


def test_the_address_of_a_postgresql_database() -> None:
    entry = database("postgres://ada:p%40ss@db.example:5433/shop?sslmode=require")
    place = [entry[key] for key in ("USER", "PASSWORD", "HOST", "PORT", "NAME")]
    assert place == ["ada", "p@ss", "db.example", "5433", "shop"]
    assert entry["CONN_MAX_AGE"] == 0
    assert entry["OPTIONS"]["sslmode"] == "require"
    assert entry["OPTIONS"]["pool"]


@pytest.mark.parametrize("url", ["mysql://root@localhost/x", "sqlite:///", "sqlite://x", "shop.sqlite3"])
def test_an_address_of_another_kind(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        database(url)


@pytest.mark.django_db(transaction=True)
class TestTheSuiteItself:
    """Tests must not see each other's rows, and child processes must see theirs."""

    ADD = "import sys; from project.desk.models import Order; Order.objects.create(number=sys.argv[1], total=1)"

    @pytest.mark.parametrize("number", ["A-1", "A-2"])
    def test_a_child_works_on_the_test_database_and_nothing_is_left_of_the_test_before(self, number: str) -> None:
        orders: Any = apps.get_model("desk", "Order").objects
        assert list(orders.all()) == []
        run_child(self.ADD, number)
        assert orders.get().number == number

    def test_the_settings_of_the_connection(self) -> None:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)
                assert Path(str(connection.settings_dict["NAME"])).is_file()
            else:
                assert connection.pool is not None  # type: ignore[attr-defined]

    def test_a_child_that_fails_says_why(self) -> None:
        with pytest.raises(AssertionError, match="ValueError: no"):
            run_child("raise ValueError('no')")

    def test_the_environment_of_a_child_names_the_test_database(self) -> None:
        assert str(connection.settings_dict["NAME"]) in child_environment()["DATABASE_URL"]
