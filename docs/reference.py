"""Writes docs/reference.md from the code, where each of these things is documented: ``python -m docs.reference``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = Path(__file__).with_name("reference.md")
HEAD = """\
# Reference

Made from the code by `python -m docs.reference`, which says each of these things in one place.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD, "## Settings", SETTINGS, *settings(), "## Errors", ERRORS, *errors(), "## Permissions", PERMISSIONS]
    return (
        "\n".join(
            [*parts, *permissions(), "", "## System checks", "", *checks(), "", "## Signals", "", SIGNALS, *signals()]
        )
        + "\n"
    )


SETTINGS = """
One dict, `CRIOGEN_THREADS`, in the site's settings; read at each use, so that `override_settings` works.

| key | meaning and default |
|---|---|"""


def settings() -> Iterator[str]:
    from criogen_threads.conf import Settings

    for name, value in vars(Settings).items():
        if isinstance(value, property):
            yield f"| `{name}` | {_line(value.__doc__)} |"
    yield ""


ERRORS = """
Each is a `CriogenError` with this `code`, which also stands in every answer of the API (with this HTTP status) and of
the websocket, and on a run that failed.

| code | HTTP | text |
|---|---|---|"""


def errors() -> Iterator[str]:
    from criogen_threads.errors import CriogenError
    from criogen_threads.problems import STATUS

    for each in CriogenError.__subclasses__():
        if each.__module__ == CriogenError.__module__:
            yield f"| `{each.code}` | {STATUS.get(each.code, '')} | {_line(each.text)} |"
    yield ""


PERMISSIONS = """
They count for users with `is_staff`; `manage.py criogen_groups` makes groups of them. What each lets people do is asked
of the policy (`POLICY`), which a site may replace.

| permission | what it is called |
|---|---|"""


def permissions() -> Iterator[str]:
    from django.apps import apps

    for model in apps.get_app_config("criogen_threads").get_models():
        for name, text in model._meta.permissions:
            yield f"| `criogen_threads.{name}` | {_line(text)} |"
    yield "| `criogen_threads.delete_thread` | Can delete thread |"


def checks() -> Iterator[str]:
    from criogen_threads import checks

    yield from ("| id | what is wrong |", "|---|---|")
    for name, text in re.findall(r"^(criogen_threads\.\w+)\s+(.+(?:\n {10,}.+)*)", checks.__doc__ or "", re.MULTILINE):
        yield f"| `{name}` | {_line(text)} |"


SIGNALS = """\
Sent after the commit, at most once; each has `thread` (the key) and `thread_id`, and what its row names.

| signal | when, and its arguments |
|---|---|"""


def signals() -> Iterator[str]:
    source = (Path(__file__).parent.parent / "criogen_threads" / "signals.py").read_text(encoding="utf-8")
    for name, text in re.findall(r'^(\w+) = Signal\(\)\n"""(.+?)"""', source, re.MULTILINE | re.DOTALL):
        yield f"| `{name}` | {_line(text)} |"


def _line(text: object) -> str:
    """Documentation on one line of a table, with Markdown's marks for code."""
    return " ".join(str(text).split()).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    FILE.write_text(reference(), encoding="utf-8")
