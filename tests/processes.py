"""Child processes that work on the test database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from django.db import connection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parent.parent
SETUP = "import django; django.setup()\n"


def database_url() -> str:
    """The address of the database that this test works on: the test database, of this xdist worker too."""
    entry = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{entry['NAME']}"
    account = ":".join(quote(str(entry[key]), safe="") for key in ("USER", "PASSWORD") if entry[key])
    place = ":".join([quote(str(entry["HOST"]), safe=""), *([str(entry["PORT"])] if entry["PORT"] else [])])
    options = {key: value for key, value in entry["OPTIONS"].items() if isinstance(value, str)}
    address = f"postgres://{account}@{place}" if account else f"postgres://{place}"
    return f"{address}/{quote(str(entry['NAME']), safe='')}" + (f"?{urlencode(options)}" if options else "")


def child_environment(**extra: str) -> dict[str, str]:
    """The environment of a child: the settings of the suite, on the test database."""
    return {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        **extra,
    }


def spawn(
    code_or_module: str, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start a child and return at once.

    Args:
        code_or_module: A dotted module (``tests.children.runner``), run like ``python -m``; anything else is
            source code, run after ``django.setup()``.
        arguments: For the child's ``sys.argv[1:]``.
        env: Variables on top of ``child_environment()``.
        options: For ``Popen``; stdin, stdout and stderr are text pipes unless named.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        _command(code_or_module, arguments), env=child_environment(**(env or {})), cwd=ROOT, text=True,
        **{**pipes, **options},
    )  # fmt: skip


def run_child(
    code_or_module: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a child to its end; see ``spawn``.

    Raises:
        AssertionError: It ended with another exit code than 0 and ``check`` is on; what it wrote is the text.
    """
    done = subprocess.run(
        _command(code_or_module, arguments), env=child_environment(**(env or {})), cwd=ROOT, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
    )  # fmt: skip
    assert not check or done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def _command(code_or_module: str, arguments: Sequence[str]) -> list[str]:
    if all(part.isidentifier() for part in code_or_module.split(".")):
        return [sys.executable, "-m", code_or_module, *arguments]
    return [sys.executable, "-c", SETUP + code_or_module, *arguments]
