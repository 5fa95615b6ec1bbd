"""Writes docs/reference.md from the code, where each of these things is documented: ``python -m docs.reference``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from collections.abc import Iterator

    from criogen_threads.errors import CriogenError

FILE = Path(__file__).with_name("reference.md")
PACKAGE = FILE.parent.parent / "criogen_threads"
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
Each is a `CriogenError` with this `code`, which also stands in every answer of the API (with this HTTP status), in the
error frames of the websocket, and on a run that failed. Where HTTP is empty no request is expected to meet it: it is
raised in Python, stands on a run, or is said on the [websocket](feed.md) alone; a request that does meet it is answered
500, and the log has it.

| code | HTTP | text |
|---|---|---|"""


def errors() -> Iterator[str]:
    from criogen_threads.problems import STATUS

    found = error_classes()
    for each in found:
        yield f"| `{each.code}` | {STATUS.get(each.code, '')} | {_line(each.text)} |"
    yield OF_THE_FRAMEWORK
    ours = {each.code for each in found}
    yield from (f"| `{code}` | {status} | {text} |" for code, status, text in of_the_framework() if code not in ours)
    yield ""


def error_classes() -> list[type[CriogenError]]:
    """Every error of the package: those of the Python API, then those that only a request or a frame meets."""
    from criogen_threads import problems  # noqa: F401 (it defines some)
    from criogen_threads.errors import CriogenError
    from criogen_threads.streaming import endpoint, frames  # noqa: F401 (these, too)

    found = [each for each in CriogenError.__subclasses__() if each.__module__.startswith("criogen_threads.")]
    return sorted(found, key=lambda each: (each.__module__ != CriogenError.__module__, each.__module__))


OF_THE_FRAMEWORK = """
What REST framework refuses before the package is asked has the same shape, and a code of its own. What Django itself
refuses, such as a request without its CSRF token, has none.

| code | HTTP | text |
|---|---|---|"""


def of_the_framework() -> Iterator[tuple[str, int, str]]:
    """The code, status and text of REST framework's errors, as the package's views answer with them."""
    from rest_framework import exceptions

    from criogen_threads.api.problems import handle

    asked = {exceptions.MethodNotAllowed: ["…"], exceptions.UnsupportedMediaType: ["…"]}
    for each in exceptions.APIException.__subclasses__():
        if each.__module__ == exceptions.__name__:
            answer = handle(each(*asked.get(each, [])))
            if answer is not None:
                yield answer.data["code"], answer.status_code, _line(answer.data["detail"])


PERMISSIONS = """
They count for users with `is_staff`; `manage.py criogen_groups` makes groups of them. What each lets people do is asked
of the policy (`POLICY`), which a site may [replace](../README.md#who-may-do-what).

| permission | what it allows |
|---|---|"""

ALLOWS = {
    "view_thread": "Open the console's list of threads, which shows those that the policy lets this person see: without"
    " `view_transcript` their own.",
    "view_toolcall": "Open the console's queue of approvals, which shows those of threads that this person may see.",
    "view_transcript": "See every conversation, in the console, the API and the feed, with what tools keep for staff."
    " Opens both lists of the console.",
    "decide_toolcall": 'Answer "staff" approvals, except of what one asked for oneself; be shown what tools keep for'
    " staff. Opens the queue of approvals.",
    "retry_run": "Continue anybody's failed or interrupted run.",
    "cancel_run": "Cancel anybody's run.",
    "rewind_thread": "Rewind anybody's thread; and anybody's, one's own included, behind calls that changed something.",
    "delete_thread": "Delete anybody's thread.",
}
"""What each permission allows; which there are is read from the code that asks for them."""


def permissions() -> Iterator[str]:
    for name in sorted(asked_for(), key=list(ALLOWS).index):
        yield f"| `criogen_threads.{name}` | {ALLOWS[name]} |"


def asked_for() -> set[str]:
    """The permissions that the policy and the console ask for."""
    from criogen_threads.admin.approvals import ApprovalAdmin
    from criogen_threads.admin.threads import ThreadAdmin

    policy = (PACKAGE / "policy.py").read_text(encoding="utf-8")
    asked = re.findall(r'_staff\(user, "(\w+)"\)|_own_or_all\(user, threads, "(\w+)"\)', policy)
    return {name for names in asked for name in names if name} | {*ThreadAdmin.entry, *ApprovalAdmin.entry}


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
    source = (PACKAGE / "signals.py").read_text(encoding="utf-8")
    for name, text in re.findall(r'^(\w+) = Signal\(\)\n"""(.+?)"""', source, re.MULTILINE | re.DOTALL):
        yield f"| `{name}` | {_line(text)} |"


def _line(text: object) -> str:
    """Documentation on one line of a table, with Markdown's marks for code."""
    return " ".join(str(text).split()).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    FILE.write_text(reference(), encoding="utf-8")
