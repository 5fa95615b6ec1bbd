"""The clock of an application server is an hour off. Time is the database's: nothing changes."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from criogen_threads import errors
from criogen_threads.engine.transcript import EXPIRED
from criogen_threads.models import Message, Run, Worker
from tests.crash import timed
from tests.processes import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_django.fixtures import SettingsWrapper

    from criogen_threads.threads import ThreadHandle

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's clock is that of the application"),
]

HOUR = 3600.0
SOON = 60.0  # seconds within which a moment counts as the right one


class Shifted:
    """A child whose clock is wrong."""

    def __init__(self, seconds: float, key: str, folder: Path) -> None:
        self._child = spawn("tests.crash.shifted", str(seconds), key, str(folder), stderr=None)

    def begin(self, *words: str) -> None:
        assert self._child.stdin
        self._child.stdin.write(" ".join(words) + "\n")
        self._child.stdin.flush()

    def end(self) -> dict[str, Any]:
        assert self._child.stdout
        return dict(json.loads(self._child.stdout.readline()))

    def do(self, *words: str) -> dict[str, Any]:
        self.begin(*words)
        return self.end()

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()


@pytest.fixture(params=[HOUR, -HOUR], ids=["an hour fast", "an hour slow"])
def shift(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture
def child(shift: float, tmp_path: Path) -> Iterator[Shifted]:
    child = Shifted(shift, tmp_path.name, tmp_path)
    yield child
    child.close()


@pytest.fixture
def handle(tmp_path: Path, settings: SettingsWrapper) -> ThreadHandle:
    """The same conversation, in a process whose clock is right."""
    settings.CRIOGEN_THREADS = timed.SETTINGS
    return timed.agent(tmp_path).thread(tmp_path.name)


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_f33_order_is_by_version_whatever_the_clock_says(child: Shifted, handle: ThreadHandle, shift: float) -> None:
    """Turns of both processes: the history is newest first, the conversation in the order of what was said."""
    for number in range(2):
        assert child.do("send", f"shifted-{number}")["status"] == "completed"
        assert handle.send_sync(f"right-{number}").status == "completed"
    history = handle.history_sync(100)
    assert [checkpoint["version"] for checkpoint in history] == list(range(8, 0, -1))
    said = [m["content"][0]["text"] for m in handle.messages_sync() if m["role"] == "user"]
    assert said == ["shifted-0", "right-0", "shifted-1", "right-1"]
    assert [event["seq"] for event in handle.get_events_sync()] == list(range(1, 25))
    by_id = [m.content[0]["text"] for m in Message.objects.filter(role="user").order_by("id")]
    assert by_id != said, "the child's ids are not shifted: this test shows nothing"
    now = time.time() * 1000
    assert all(abs(checkpoint["created_at_ms"] - now) < SOON * 1000 for checkpoint in history)


def test_f33_a_lease_is_counted_by_the_databases_clock(child: Shifted, handle: ThreadHandle, tmp_path: Path) -> None:
    """Longer than the lease: the shifted process keeps the thread, and looks dead to nobody."""
    child.begin("send", "hold")
    until((tmp_path / "begun").exists, "the tool does not start")
    time.sleep(1.5)
    with pytest.raises(errors.ThreadBusyError):
        handle.send_sync("mine", on_busy="reject")
    (tmp_path / "gate").touch()
    assert child.end()["results"] == ["held"]


def test_f33_others_look_alive_to_a_shifted_process(child: Shifted, handle: ThreadHandle, tmp_path: Path) -> None:
    """It neither takes a thread that is held, nor is the call dropped that waits in it."""
    with ThreadOf(lambda: handle.send_sync("hold")) as holding:
        until((tmp_path / "begun").exists, "the tool does not start")
        assert child.do("send", "rejected", "reject") == {"error": "thread_busy"}
        child.begin("send", "waiting")
        until(lambda: Run.objects.filter(status="queued").exists(), "it does not wait")
        with ThreadOf(lambda: handle.send_sync("behind")) as behind:
            until(lambda: Run.objects.filter(status="queued").count() == 2, "a waiter was dropped")
            time.sleep(1.2)
            (tmp_path / "gate").touch()
            assert child.end()["status"] == "completed"
        assert holding.result.status == behind.result.status == "completed"
    runs = Run.objects.order_by("started_at").values_list("number", flat=True)
    assert list(runs) == [1, 2, 3]
    assert Worker.objects.alive().count() == 2


def test_f33_an_approval_expires_by_the_databases_clock(child: Shifted, handle: ThreadHandle) -> None:
    """Neither early nor late, in whichever process it is asked for and answered."""
    [pending] = child.do("send", "patient")["pending"]
    assert abs(pending["expires_at_ms"] / 1000 - time.time() - timed.LONG) < SOON
    assert handle.approve_sync().status == "completed"
    assert handle.send_sync("patient").status == "suspended"
    assert child.do("approve")["results"] == ["ran"]
    assert handle.send_sync("hasty").status == "suspended"
    time.sleep(timed.SHORT + 0.1)
    assert child.do("retry")["results"] == [EXPIRED]
    assert child.do("send", "hasty")["status"] == "suspended"
    time.sleep(timed.SHORT + 0.1)
    handle.retry_sync()
    assert handle.messages_sync()[-2]["content"][0]["tool_result"]["content"] == EXPIRED


class ThreadOf:
    """Does something in a thread, and waits for it at the end of the block."""

    result: Any = None

    def __init__(self, work: Callable[[], Any]) -> None:
        self._thread = threading.Thread(target=lambda: setattr(self, "result", work()))

    def __enter__(self) -> ThreadOf:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(20)
