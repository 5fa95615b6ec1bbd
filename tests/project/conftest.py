"""A SQLite file for each test of the terminal chat."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.project import terminal

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that the chat itself has made, with nothing said in it."""
    file = tmp_path_factory.mktemp("demo") / "fresh.sqlite3"
    done = terminal.script(file)
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture
def database(fresh: Path, tmp_path: Path) -> Path:
    """A copy of it: no migrations to wait for."""
    return shutil.copy(fresh, tmp_path / "chat.sqlite3")
