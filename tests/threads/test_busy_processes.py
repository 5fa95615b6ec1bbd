"""One run at a time between two processes on one database, whatever the second call is to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from criogen_threads.models import Worker
from tests.processes import spawn
from tests.support import an_agent, in_db, refused, texts

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """Another process whose model is being asked, on the thread "shared"."""
    child = spawn("tests.threads.child", "shared", "from the child")
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "reached\n", child.stderr.read() if child.stderr else ""
        yield child
    finally:
        child.kill()
        child.communicate()


def _let_go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("done\n")
    child.stdin.flush()


async def test_p14_another_process_waits_rejects_and_goes_on_behind(other: subprocess.Popen[str]) -> None:
    chat = an_agent("parent", "parent").thread("shared")
    with refused("thread_busy"):
        await chat.send("no", on_busy="reject")
    with refused("thread_busy"):
        await chat.send("no", timeout=0.2)
    waiting = asyncio.create_task(chat.send("from the parent"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.01)
    _let_go(other)
    await waiting
    assert texts(await chat.messages()) == [
        "user: from the child", "assistant: child: done", "user: from the parent", "assistant: parent",
    ]  # fmt: skip


async def test_p14_another_process_interrupts(other: subprocess.Popen[str]) -> None:
    chat = an_agent("parent").thread("shared")
    reply = await chat.send("from the parent", on_busy="interrupt")
    assert reply.text == "parent"
    assert [(run["status"], run["error_code"]) for run in await chat.runs()] == [
        ("failed", "cancelled"), ("completed", ""),
    ]  # fmt: skip
    assert other.stdout is not None
    assert await asyncio.to_thread(other.stdout.readline) == "cancelled\n"


async def test_p15_a_killed_process_leaves_the_run_to_retry(other: subprocess.Popen[str]) -> None:
    other.kill()
    await asyncio.to_thread(other.wait)
    await in_db(Worker.objects.filter(pid=other.pid).delete)  # its lease is over
    chat = an_agent("recovered").thread("shared")
    with refused("thread_interrupted"):
        await chat.send("hello?")
    assert (await chat.retry()).text == "recovered"
    assert texts(await chat.messages()) == ["user: from the child", "assistant: recovered"]
