"""The console on 100,000 threads and 1,000,000 checkpoints: every list, filter, search and page.

    python -m benchmarks.console [--threads 100000] [--json FILE] [--check]

Each address is asked for by Django's test client: the whole request, templates and all. ``DATABASE_URL`` names a server
that may get a database for the time being; without it one is started.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.databases import Databases, server

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.test import Client

BUDGET = 300.0
"""Milliseconds that a page may take."""

MOST_QUERIES = 25
"""Statements that a page may need, the session's and the user's among them."""

TIMES = 7

OF_APPROVALS = [
    "", "status=approved", "status=rejected", "status=lapsed", "status=all", "tool=refund", "tool=book_call_back",
    "tool=refund&status=all", "tool=book_call_back&status=all", "agent=desk", "agent=nobody", "agent=desk&status=all",
    "agent=nobody&status=all", "age=week", "age=week&status=all", "by=me", "by=me&status=all",
]  # fmt: skip
OF_THREADS = [
    "", "status=idle", "status=running", "status=suspended", "status=failed", "status=interrupted", "waiting=yes",
    "agent=desk", "agent=nobody", "q=user-4711", "q=customer-4711", "q=A-4711", "q=no+such+thing", "q=Refund", "q=e",
    "status=failed&agent=nobody", "status=failed&q=user-13",
]  # fmt: skip
"""Filters, searches and later pages; those that find nothing have to look at everything."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One address: ``milliseconds`` is the median of several requests, ``first`` that of the very first, ``work`` what
    of it this process and the server computed, which does not depend on what else the machine does."""

    name: str
    milliseconds: float
    first: float
    work: float
    queries: int
    kilobytes: float

    @property
    def met(self) -> bool | None:
        """None for files, which grow with the thread and have no budget."""
        if _is_file(self.name):
            return None
        return (self.work or self.milliseconds) <= BUDGET and self.queries <= MOST_QUERIES

    def line(self) -> str:
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        times = "".join(f"{value:8.0f}" for value in (self.work, self.milliseconds, self.first))
        return f"{verdict:7}{self.name:52}{times}{self.queries:9}{self.kilobytes:8.0f}"


def _is_file(name: str) -> bool:
    return "export" in name


def main() -> int:
    options = _options()
    with server(durable=False) as databases:
        _set_django_up(databases)
        from django.db import connection

        rows, asked = _measure(options.threads)
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
    print(", ".join(f"{name.removeprefix('criogen_threads_')}: {count:,}" for name, count in rows.items()))
    head = f"at most {BUDGET:g} ms of work and {MOST_QUERIES} queries"
    print(f"{head:59}{'work':>8}{'ms':>8}{'first':>8}{'queries':>9}{'kB':>8}")
    print("\n".join(each.line() for each in asked))
    met = all(each.met is not False for each in asked)
    if options.json:
        about = {"django": version("django"), "python": platform.python_version(), "threads": options.threads}
        found = {"about": about, "rows": rows, "figures": [{**asdict(each), "met": each.met} for each in asked]}
        options.json.write_text(json.dumps({**found, "met": met}, indent=2))
    return int(options.check and not met)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=100_000, help="ten checkpoints each, at least 1,000")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a budget is missed")
    return parser.parse_args()


def _set_django_up(databases: Databases) -> None:
    """The site of ``project/`` on a database of its own."""
    os.environ |= {"DATABASE_URL": databases.url, "DJANGO_SETTINGS_MODULE": "project.settings", "DEBUG": "1"}
    databases.make("console")
    import django
    from django.conf import settings
    from django.core.management import call_command

    settings.DATABASES["default"]["NAME"] = databases.full_name("console")
    settings.DEBUG = False  # no statement is remembered
    settings.ALLOWED_HOSTS = ["testserver"]
    django.setup()
    call_command("migrate", verbosity=0)


def _measure(threads: int) -> tuple[dict[str, int], list[Asked]]:
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Permission
    from django.db import connection
    from django.test import Client

    from benchmarks import many_rows

    users: Any = get_user_model()._default_manager
    boss = users.create_superuser("boss")
    approver = users.create_user("approver", is_staff=True)
    names = ["decide_toolcall", "view_transcript"]
    approver.user_permissions.set(Permission.objects.filter(codename__in=names))
    rows = many_rows.write(connection, threads, approver.pk)
    later = max(1, threads // 5_000)
    asked = []
    for user, addresses in ((boss, _addresses(later)), (approver, _lists(later))):
        client = Client()
        client.force_login(user)
        asked += [_ask(client, f"{user}: {name}", address) for name, address in addresses]
    return rows, asked


def _lists(later: int) -> Iterable[tuple[str, str]]:
    """The index, the queue and the list of threads, with each filter, search, and a later page."""
    approvals, threads = "/admin/criogen_threads/approval/", "/admin/criogen_threads/thread/"
    yield "index", "/admin/"
    for query in [*OF_APPROVALS, f"p={later}", f"status=all&p={5 * later}"]:
        yield f"approvals {query}", f"{approvals}?{query}"
    for query in [*OF_THREADS, f"p={5 * later}", f"owner__id__exact={_owner()}"]:
        yield f"threads {query}", f"{threads}?{query}"


def _addresses(later: int) -> Iterable[tuple[str, str]]:
    """The lists, and every page of a short thread, of a long one, and of an approval."""
    from criogen_threads.models import Checkpoint, Message, Thread, ToolCall

    yield from _lists(later)
    for key in ("user-307", "long"):  # the first waits for an approval
        thread = Thread.objects.get(key=key)
        points = Checkpoint.objects.filter(thread=thread)
        first, last = points.get(version=1).pk, thread.head_id
        page = f"/admin/criogen_threads/thread/{thread.pk}"
        middle = Message.objects.get(thread=thread, position=5)
        for tab in ("change", "live", "runs", "branches", "events", "history", "delete", "export.md", "export.json"):
            yield f"{key}: {tab}", f"{page}/{tab}{'' if '.' in tab else '/'}"
        yield f"{key}: earlier messages", f"{page}/change/?before={middle.pk}"
        yield f"{key}: one message", f"{page}/messages/{middle.pk}/"
        yield f"{key}: earlier runs", f"{page}/runs/?before=3"
        yield f"{key}: earlier checkpoints", f"{page}/branches/?before=9"
        yield f"{key}: rewind", f"{page}/rewind/?checkpoint={first}"
        yield f"{key}: differences", f"{page}/differences/?from={first}&to={last}"
    waiting = ToolCall.objects.awaiting_approval().order_by("created_at")[0]  # type: ignore[attr-defined]
    answered = ToolCall.objects.filter(approved=True).order_by("-pk")[0]
    for name, call in (("waiting", waiting), ("answered", answered)):
        for tab in ("change", "live"):
            yield f"an approval, {name}: {tab}", f"/admin/criogen_threads/approval/{call.pk}/{tab}/"
    yield "a user's page", f"/admin/auth/user/{_owner()}/change/"


def _owner() -> int:
    from django.contrib.auth import get_user_model

    return int(get_user_model()._default_manager.get(username="customer-7").pk)


def _ask(client: Client, name: str, address: str) -> Asked:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    first, size = _timed(client, address)
    before = _work(connection)
    times = [_timed(client, address)[0] for _ in range(1 if _is_file(name) else TIMES)]
    work = (_work(connection) - before) * 1000 / len(times)
    with CaptureQueriesContext(connection) as caught:
        client.get(address)
    return Asked(name, median(times), first, work, len(caught), size / 1000)


def _work(connection: Any) -> float:
    """Processor seconds of this process, and of the server's process that serves it with what that has ended.

    0 where the server is elsewhere: the verdicts are then about the time that passed.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = Path("/proc", str(cursor.fetchone()[0]), "stat")
    if not backend.exists():
        return 0.0
    fields = backend.read_text().rpartition(")")[2].split()
    parent = Path("/proc", fields[1], "stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12]) + int(parent[13]) + int(parent[14])  # the parent's are of helpers it had
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _timed(client: Client, address: str) -> tuple[float, int]:
    started = time.perf_counter()
    response = client.get(address)
    taken = (time.perf_counter() - started) * 1000
    if response.status_code != 200:
        raise RuntimeError(f"{address} answered {response.status_code}")
    return taken, len(response.getvalue())


if __name__ == "__main__":
    raise SystemExit(main())
