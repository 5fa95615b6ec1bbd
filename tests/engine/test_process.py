"""Real processes: how they end with a run alive, and how they go on after a fork."""

from __future__ import annotations

import time

import pytest

from criogen_threads.models import Run, Thread, Worker
from tests.processes import run_child

pytestmark = pytest.mark.django_db(transaction=True)

AGENT = """
import os, sys, time
from django.conf import settings
settings.CRIOGEN_THREADS = {"GRACE_SECONDS": float(sys.argv[1])}
from criogen_threads.agents import Agent, register
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Thread
import asyncio
async def respond(messages, tools):
    await asyncio.sleep(float(sys.argv[2]))
    return f"answer {len(messages)}"
handle = register(Agent("helper", model=ScriptedModel(respond))).thread("user-1")
"""
ENDS = """
handle.submit_sync("Hello")
while not Thread.objects.filter(status="running").exists():
    time.sleep(0.01)
"""
FORKS = """
assert handle.send_sync("one").text == "answer 1"
handle.submit_sync("two")
while len(handle.messages_sync()) < 4:
    time.sleep(0.01)
pid = os.fork()
if pid == 0:
    code = 1
    try:
        assert handle.send_sync("three").text == "answer 5"
        handle.submit_sync("four")
        while len(handle.messages_sync()) < 8:
            time.sleep(0.01)
        from criogen_threads.engine import stopping
        stopping.stop()
        code = 0
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert handle.send_sync("five").text == "answer 9"
handle.submit_sync("six")
while len(handle.messages_sync()) < 12:
    time.sleep(0.01)
"""


def test_a_process_that_ends_gives_its_runs_their_grace() -> None:
    """At exit, with a run alive on the process's own loop: it completes, and the worker says goodbye."""
    run_child(AGENT + ENDS, "10", "0.3")
    assert Run.objects.get().status == Run.Status.COMPLETED
    assert not Worker.objects.exists()


def test_a_process_that_ends_abandons_what_takes_longer() -> None:
    """The run is unsaved and interrupted at once, not after the lease of half a minute."""
    begun = time.monotonic()
    done = run_child(AGENT + ENDS, "0.1", "60")
    assert time.monotonic() - begun < 20
    assert Thread.objects.interrupted().get().version == 1  # type: ignore[attr-defined]
    assert Run.objects.get().status == Run.Status.IN_PROGRESS
    assert not Worker.objects.exists()
    assert "Traceback" not in done.stderr, done.stderr


def test_a_process_forks_after_use() -> None:
    """The child has a worker, a loop, threads and connections of its own, and leaves those of its parent alone."""
    done = run_child(AGENT + FORKS, "5", "0")
    assert [run.number for run in Run.objects.filter(status="completed").order_by("number")] == [1, 2, 3, 4, 5, 6]
    assert not Worker.objects.exists()
    assert "Traceback" not in done.stderr, done.stderr
