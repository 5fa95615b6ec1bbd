"""``criogen_recover``: what dead processes left is taken up, once."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.engine import lease
from criogen_threads.engine.dispatch import in_process
from criogen_threads.engine.journal import turns
from criogen_threads.engine.recovery import recover
from criogen_threads.engine.transcript import text_block
from criogen_threads.models import Run, Thread, Worker
from tests.engine.recovering import working
from tests.processes import spawn
from tests.support import Gate, an_agent, die, gated, in_db, texts, waits_and_dies

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)


async def interrupted(key: str = "one") -> ThreadHandle:
    """A thread whose process died while the model was being asked."""
    gate = Gate()
    chat = an_agent(model=gated(gate, "never")).thread(key)
    sending = asyncio.create_task(chat.send("go"))
    await gate.reached.wait()
    await die(sending)
    return chat


class Recoverers:
    """Processes that recover, all of them ready."""

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[str]] = []

    def add(self, path: Path, *arguments: str) -> subprocess.Popen[str]:
        child = spawn("tests.engine.recovering", str(path), *arguments, stderr=None)
        self.children.append(child)
        return child

    def begin(self) -> None:
        for child in self.children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in self.children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()

    def said(self) -> list[str]:
        return [child.communicate(timeout=30)[0] for child in self.children]


@pytest.fixture
def recoverers() -> Iterator[Recoverers]:
    found = Recoverers()
    yield found
    for child in found.children:
        child.kill()
        child.communicate()


async def test_f16_an_interrupted_run_is_run_on_once_by_two_recoverers_at_once(
    tmp_path: Path, recoverers: Recoverers
) -> None:
    chat = await interrupted()
    for _ in range(2):
        recoverers.add(tmp_path / "ledger")
    await asyncio.to_thread(recoverers.begin)
    said = await asyncio.to_thread(recoverers.said)
    assert [child.returncode for child in recoverers.children] == [0, 0]
    assert any("1 interrupted" in each for each in said)
    assert (tmp_path / "ledger").read_text() == "worked\n"
    assert texts(await chat.messages()) == ["user: go", "assistant: work()", "tool: worked", "assistant: done"]
    [run] = await chat.runs()
    assert (run["status"], run["attempt"]) == ("completed", 2)


async def test_f16_two_in_one_process_run_it_once_too(tmp_path: Path) -> None:
    chat = await interrupted()
    an_agent(model=working(str(tmp_path / "ledger")).backend, tools=working(str(tmp_path / "ledger")).tools.values())
    await asyncio.gather(recover(), recover())
    assert (tmp_path / "ledger").read_text() == "worked\n"
    assert [run["attempt"] for run in await chat.runs()] == [2]
    assert str(await recover()) == "0 expired, 0 interrupted, 0 answered, 0 queued, 0 ephemeral"


async def test_recover_as_a_loop_ends_with_sigterm_and_finishes_what_it_has_begun(
    tmp_path: Path, recoverers: Recoverers
) -> None:
    child = recoverers.add(tmp_path / "ledger", "--every", "0.1")
    await asyncio.to_thread(recoverers.begin)
    for key in ("one", "two"):  # each after the last one has ended: a later round finds it
        chat = await interrupted(key)
        while (await chat.runs())[0]["status"] != "completed":
            await asyncio.sleep(0.01)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    [said] = await asyncio.to_thread(recoverers.said)
    assert child.returncode == 0
    assert said.count("Taken up") >= 2
    assert said.count("1 interrupted") == 2
    assert not await in_db(Worker.objects.filter(pid=child.pid).exists)  # it said goodbye


async def test_recover_starts_what_was_submitted_and_deletes_ephemeral_threads() -> None:
    agent = an_agent("one")
    gate = Gate()
    once = asyncio.create_task(an_agent(model=gated(gate, "never"), name="other").run("go"))
    await gate.reached.wait()
    await in_db(_submit, "one")
    lease.current().runs.clear()  # the process dies, and does not even delete its ephemeral thread
    await in_db(Worker.objects.all().delete)
    lease.forget()
    found = await recover()
    assert (found.queued, found.ephemeral) == (1, 1)
    assert texts(await agent.thread("one").messages()) == ["user: submitted", "assistant: one"]
    assert await in_db(lambda: list(Thread.objects.values_list("key", flat=True))) == ["one"]
    gate.open()
    with pytest.raises(Exception, match="taken for dead"):
        await once


def _submit(key: str) -> Any:
    """Saved by a process that dies before it hands it over."""
    turn = turns.Turn(key, "helper", [text_block("submitted")])
    turns.submit(turn, lease.current().ensure())
    return Run.objects.get(pk=turn.run_id)


async def test_f13_a_call_that_died_in_line_does_not_stand_there_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may ever come to that thread again; and what it wanted to say is not kept."""
    for look in (recover, in_process.InProcess()._scan):
        key = look.__name__
        gate = Gate()
        chat = an_agent(model=gated(gate, "one"), name=key).thread(key)
        sending = asyncio.create_task(chat.send("a"))
        await gate.reached.wait()
        dead = await in_db(waits_and_dies, key)
        gate.open()
        await sending
        assert await in_db(Run.objects.filter(pk=dead, status="queued").exists)
        monkeypatch.setattr(in_process, "SCAN_SECONDS", 0.01)
        looking = asyncio.ensure_future(look())
        async with asyncio.timeout(30):
            while await in_db(Run.objects.filter(pk=dead).exists):
                await asyncio.sleep(0.01)
        looking.cancel()
        assert [run["status"] for run in await chat.runs()] == ["completed"]
