"""Eight processes on one thread: one turn after the other, none lost, in order of arrival."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from criogen_threads.models import Event, Run, Thread
from tests.contention.child import Ledger
from tests.contention.crowd import begin, crowd, one_at_a_time, outcomes
from tests.support import Gate, an_agent, gated, in_db, is_valid, texts, unfinished_runs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]

PROCESSES, SENDS = 8, 25


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def rests(key: str) -> Thread:
    """The thread, at rest: nobody holds it and nobody is in line."""
    thread = Thread.objects.get(key=key)
    assert (thread.status in ("idle", "failed"), thread.holder, thread.cancel_mark) == (True, None, None)
    assert not unfinished_runs().exists()
    return thread


def starts(thread: Thread) -> list[int]:
    """The numbers of the runs, in the order in which they started."""
    begun = Event.objects.filter(thread=thread, type="run_start").order_by("seq").values_list("run_id", flat=True)
    numbers = dict(Run.objects.values_list("pk", "number"))
    return [numbers[run] for run in begun]


def test_p10_p14_8_processes_25_sends_each_are_200_turns_one_after_the_other(ledger: Ledger) -> None:
    with crowd(*(("turns", ledger.path, "one", f"p{n}", SENDS) for n in range(PROCESSES))) as children:
        begin(*children)
        said = outcomes(children)
    sent = [f"p{process}-{number}" for process in range(PROCESSES) for number in range(SENDS)]
    assert said == {text: (f"echo: {text}",) for text in sent}
    order = one_at_a_time(ledger.lines)
    assert sorted(order) == sorted(sent)
    for process in range(PROCESSES):
        own = [text for text in order if text.startswith(f"p{process}-")]
        assert own == [f"p{process}-{number}" for number in range(SENDS)]
    thread = rests("one")
    assert starts(thread) == sorted(starts(thread)), "not in order of arrival"
    assert thread.version == 2 * len(sent)
    transcript = texts(an_agent().thread("one").messages_sync())
    assert transcript == [line for text in order for line in (f"user: {text}", f"assistant: echo: {text}")]


def test_p14_wait_reject_and_interrupt_mixed_over_processes(ledger: Ledger) -> None:
    with crowd(*(("mixed", ledger.path, "one", f"p{n}", 12) for n in range(4))) as children:
        begin(*children)
        said = outcomes(children)
    assert len(said) == 48
    codes = {text: outcome[0] if len(outcome) > 1 else "reply" for text, outcome in said.items()}
    assert set(codes.values()) <= {"reply", "cancelled", "thread_busy"}
    assert {text.rpartition("-")[2] for text, code in codes.items() if code == "thread_busy"} <= {"reject"}
    rests("one")
    one_at_a_time(ledger.lines)
    runs = {run.input[0]["text"]: (run.status, run.error_code) for run in Run.objects.all()}
    ends = {"reply": ("completed", ""), "cancelled": ("failed", "cancelled")}
    assert runs == {text: ends[code] for text, code in codes.items() if code != "thread_busy"}
    messages = an_agent().thread("one").messages_sync()
    assert is_valid(messages)
    replied = [f"echo: {text}" for text, code in codes.items() if code == "reply"]
    assert sorted(m["content"][0]["text"] for m in messages if m["role"] == "assistant") == sorted(replied)


async def test_waiters_that_were_killed_are_passed_over(ledger: Ledger) -> None:
    names = ["dead1", "alive1", "dead2", "alive2"]
    gate = Gate()
    chat = an_agent(model=gated(gate, "go on")).thread("one")
    with crowd(*(("turns", ledger.path, "one", name, 1) for name in names)) as children:
        holding = asyncio.create_task(chat.send("first"))
        await gate.reached.wait()
        for number, child in enumerate(children, 2):
            begin(child)
            while len(await chat.runs()) < number:
                await asyncio.sleep(0.01)
        dead = [child for child, name in zip(children, names, strict=True) if name.startswith("dead")]
        for child in dead:
            await asyncio.to_thread(child.kill)
        gate.open()
        await holding
        living = [child for child in children if child not in dead]
        said = await asyncio.to_thread(outcomes, living, timeout=60)
    assert said == {f"{name}-0": (f"echo: {name}-0",) for name in ("alive1", "alive2")}
    assert one_at_a_time(ledger.lines) == ["alive1-0", "alive2-0"]
    thread = await in_db(rests, "one")
    assert await in_db(starts, thread) == [1, 3, 5]  # what the dead wanted to say is not stored
    assert await in_db(Run.objects.count) == 3
