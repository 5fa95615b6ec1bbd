"""Unrelated threads do not wait for each other; one approval has one answer; parallel results are all there."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction

from criogen_threads.agents import tool
from criogen_threads.models import Run, Thread, ToolCall
from tests.contention.child import Ledger, paying
from tests.contention.crowd import begin, crowd, outcomes
from tests.support import an_agent, call, in_db, is_valid
from tests.threads.people import staff

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

postgres_only = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def test_p14_turns_on_50_threads_over_processes_do_not_wait_for_each_other(ledger: Ledger) -> None:
    """No model answers before all 50 have been asked."""
    with crowd(*(("threads", ledger.path, first, 10, 50) for first in range(0, 50, 10))) as children:
        begin(*children)
        said = outcomes(children)
    assert said == {f"thread-{number}": ("all are here",) for number in range(50)}
    assert sorted(ledger.lines) == sorted(said)
    assert set(Thread.objects.values_list("status", "version")) == {("idle", 2)}


@contextmanager
def row_lock(key: str) -> Iterator[None]:
    """Somebody else holds the row of a thread, for as long as the block lasts."""
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Thread.objects.select_for_update().get(key=key)
            held.set()
            assert let_go.wait(30)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    try:
        yield
    finally:
        let_go.set()
        holder.join()


@postgres_only
async def test_f05_no_thread_waits_behind_the_lock_of_another() -> None:
    agent = an_agent("one", "two")
    for key in ("locked", *(f"free-{number}" for number in range(50))):
        await agent.thread(key).send("first")
    with row_lock("locked"):
        stuck = asyncio.create_task(agent.thread("locked").send("second"))
        replies = await asyncio.gather(*(agent.thread(f"free-{number}").send("second") for number in range(50)))
        assert {reply.text for reply in replies} == {"two"}
        assert await agent.thread("free-0").delete() is True
        assert not stuck.done()
    assert (await stuck).text == "two"


@postgres_only
async def test_f05_neither_do_threads_of_one_user(settings: SettingsWrapper) -> None:
    """The limit of runs per user locks a user's row for a moment, never for the time that a thread is locked."""
    settings.CRIOGEN_THREADS = {"MAX_RUNS_PER_USER": 50}
    user = await in_db(staff, "ann")
    agent = an_agent("one", "two")
    for key in ("locked", "free"):
        await agent.thread(key, actor=user).send("first")
    with row_lock("locked"):
        stuck = asyncio.create_task(agent.thread("locked", actor=user).send("second"))
        assert (await agent.thread("free", actor=user).send("second")).text == "two"
        assert not stuck.done()
    assert (await stuck).text == "two"


def test_f01_f28_20_people_answer_one_approval_at_once_and_one_answer_counts(ledger: Ledger, tmp_path: Path) -> None:
    names = [f"staff-{number}" for number in range(20)]
    for name in names:
        staff(name, "decide_toolcall", "view_transcript")
    chat = an_agent(model=paying(ledger).backend, tools=paying(ledger).tools.values()).thread("one")
    [pending] = chat.send_sync("pay").pending
    answers = [("answers", ledger.path, "one", pending["id"], *names[first::4]) for first in range(4)]
    with crowd(*answers) as children:
        begin(*children)
        said = outcomes(children)
    assert sorted(said) == sorted(names)
    row = ToolCall.objects.select_related("decided_by").get()
    assert row.decided_by is not None
    assert row.decided_at is not None
    winner, at = row.decided_by.username, row.decided_at.isoformat()
    assert said.pop(winner) == ("done",)
    for code, details in said.values():
        assert (code, details["decided_by"], details["decided_at"]) == ("resume_invalid", winner, at)
    assert ledger.lines == ["paid"]
    assert [event["type"] for event in chat.get_events_sync()].count("approval_decided") == 1
    assert [(run.status, run.attempt) for run in Run.objects.all()] == [("completed", 1)]


async def test_f01_f28_20_answers_at_once_in_one_process_have_one_effect() -> None:
    ran: list[str] = []

    @tool(approval="staff")
    def pay() -> str:
        ran.append("paid")
        return "paid"

    chat = an_agent([call("pay")], "done", tools=[pay]).thread("one")
    [pending] = (await chat.send("pay")).pending
    answers = [{"approve": number % 2 == 0, "reason": f"reason {number}"} for number in range(20)]
    outcomes = await asyncio.gather(
        *(chat.decide({pending["id"]: answer}) for answer in answers), return_exceptions=True
    )
    late = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert [getattr(outcome, "code", outcome) for outcome in late] == ["resume_invalid"] * 19
    row = await in_db(ToolCall.objects.get)
    assert row.decided_at is not None
    assert {outcome.details["decided_at"] for outcome in late} == {row.decided_at.isoformat()}  # type: ignore[attr-defined]
    assert ran == ["paid"] * bool(row.approved)
    winner = next(number for number, outcome in enumerate(outcomes) if not isinstance(outcome, Exception))
    assert (row.approved, row.reason) == (answers[winner]["approve"], answers[winner]["reason"])


async def test_f03_every_one_of_20_parallel_results_is_there() -> None:
    """Ten sync tools and ten async ones, which end in an order that is not that of their calls."""
    ready = threading.Barrier(10)
    others = asyncio.Event()

    @tool
    def in_a_thread(number: int) -> dict[str, int]:
        ready.wait(20)
        return {"number": number}

    @tool
    async def in_a_task(number: int) -> dict[str, int]:
        if number == 19:
            others.set()
        await others.wait()
        return {"number": number}

    names = ["in_a_thread", "in_a_task"]
    chat = an_agent(
        [call(names[number % 2], number=number) for number in range(20)], "done", tools=[in_a_thread, in_a_task]
    ).thread("one")
    assert (await chat.send("go")).text == "done"
    messages = await chat.messages()
    assert is_valid(messages)
    found: dict[Any, Any] = {}
    for message in messages[2:-1]:
        [block] = message["content"]
        found[block["tool_result"]["id"]] = block["tool_result"]["content"]
    assert found == {f"call-{number + 1}": {"number": number} for number in range(20)}
    assert set(await in_db(lambda: list(ToolCall.objects.values_list("status", flat=True)))) == {"done"}
    assert [checkpoint["step"] for checkpoint in await chat.history(30)] == [2, *[1] * 21, 0]
