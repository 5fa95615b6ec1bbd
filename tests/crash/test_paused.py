"""A process that is paused past its lease, not dead: what it does late does not count."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from criogen_threads.models import Message, Thread
from project.desk.models import CallBack
from tests.crash.actors import Ledger
from tests.crash.checks import Snapshot, check
from tests.crash.forge import Forge
from tests.crash.matrix import QUIET, error_of, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)

SHORT = {"LEASE_SECONDS": 2, "HEARTBEAT_SECONDS": 0.25}
postgres_only = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has one writer, which may not be paused in a transaction"
)


@pytest.fixture(scope="module")
def forges(django_db_setup: None) -> Iterator[tuple[Forge, Forge]]:
    with Forge() as first, Forge() as second:
        yield first, second


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def is_stopped(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return state.stdout.startswith("T")


def pause_and_take_over(forges: tuple[Forge, Forge], folder: Path, at: str, **job: Any) -> None:
    """Stop one process at a point, let another finish its work after the lease, and let the first go on."""
    paused, other = forges
    ledger, key = Ledger(folder), folder.name
    job = {"scenario": "turn", "on_crash": "report", "settings": SHORT, "folder": str(folder), "key": key, **job}
    pid = paused.start(at=at, end=signal.SIGSTOP, name=f"{key}-paused", **job)
    until(lambda: is_stopped(pid), "it does not stop")
    try:
        until(lambda: not Thread.objects.held().filter(key=key).exists(), "its lease does not end")
        snapshot = Snapshot.take(key, ledger)
        ended = other.run(**{**job, "name": f"{key}-other", "settings": QUIET})
        assert ended == 0, error_of(folder) or ended
        check(key, ledger, snapshot, "report")
        rows = everything(key)
    finally:
        os.kill(pid, signal.SIGCONT)
        ended = paused.wait()
    settle(f"{key}-paused")
    assert ended == 1, "it did not notice"
    assert "LeaseLostError" in error_of(folder).splitlines()[-1]
    assert everything(key) == rows


def everything(key: str) -> tuple[Any, ...]:
    """Where the thread stands, every message that it has, and what the atomic tool has written."""
    thread = Thread.objects.filter(key=key).values("version", "event_seq", "head", "fence", "status", "holder").get()
    messages = sorted(Message.objects.filter(thread__key=key).values_list("pk", flat=True))
    return thread, messages, sorted(CallBack.objects.values_list("note", flat=True))


def test_f12_f22_a_late_tool_result_does_not_enter_the_transcript(forges: tuple[Forge, Forge], tmp_path: Path) -> None:
    """The tool returns after another has asked again and run it again; its caller gets ``lease_lost``."""
    pause_and_take_over(forges, tmp_path, "in pay, after its effect #1")


@postgres_only
def test_f12_a_late_atomic_tool_leaves_no_rows(forges: tuple[Forge, Forge], tmp_path: Path) -> None:
    """Paused inside the tool's transaction it holds up nobody, and its writes are rolled back."""
    pause_and_take_over(forges, tmp_path, "in book, after its effect #1", locked_for="1s")


@postgres_only
def test_f42_a_process_paused_inside_a_save_does_not_keep_the_thread_locked(
    forges: tuple[Forge, Forge], tmp_path: Path
) -> None:
    """``idle_in_transaction_session_timeout`` ends its transaction, which held the row's lock."""
    pause_and_take_over(forges, tmp_path, "before the commit of answer #1", locked_for="1s")
