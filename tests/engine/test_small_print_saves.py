"""A save whose COMMIT got no answer is repeated with the same ids, and is there once."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import InterfaceError

from criogen_threads.agents import ToolContext, tool
from criogen_threads.engine.dispatch.executing import execute
from criogen_threads.engine.journal.statements import Session
from criogen_threads.models import Run, Thread, ToolCall
from project.desk.models import CallBack
from tests.machine.checks import check_calls, check_numbers, check_references, check_statuses
from tests.machine.rows import Rows
from tests.support import an_agent, call, in_db, is_valid, refused, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


class Losses:
    """Loses the answer to the first COMMIT of each write, or the write itself before its COMMIT."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
        self.when = when
        self.count = 0
        self._transaction = Session.transaction
        losses = self
        monkeypatch.setattr(Session, "transaction", lambda session: losses.transaction(session))

    @contextmanager
    def transaction(self, session: Session) -> Iterator[None]:
        vars(session.connection).pop("is_usable", None)
        with self._transaction(session):
            yield
            if self.when == "before" and not session.repeats:
                self._lose(session)
        if self.when == "after" and not session.repeats:
            self._lose(session)

    def _lose(self, session: Session) -> None:
        self.count += 1
        if self.when == "after":
            session.connection.close()
            session.connection.is_usable = lambda: False  # SQLite says that it always is
        raise InterfaceError("the connection was lost")


@pytest.fixture(params=["before", "after"])
def losses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, settings: SettingsWrapper) -> Losses:
    """The connection is lost once in every write, before its COMMIT or after it."""
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 5, "MODEL_RETRIES": 0, "DATABASE_RETRY_SECONDS": 5}
    monkeypatch.setattr("criogen_threads.engine.journal.writing.FIRST_PAUSE", 0.001)
    return Losses(monkeypatch, request.param)


def are_right(key: str) -> Rows:
    rows = Rows(key)
    rows.read()
    assert rows.thread is not None
    check_numbers(rows, rows.thread)
    check_statuses(rows, rows.thread)
    check_references(rows)
    check_calls(rows, rows.thread)
    return rows


async def test_every_save_of_a_long_conversation_is_there_once(losses: Losses) -> None:
    ran: Counter[str] = Counter()

    @tool
    def look_up(context: ToolContext) -> str:
        ran["look_up"] += 1
        return "found"

    @tool(approval="staff")
    def pay(context: ToolContext) -> str:
        ran["pay"] += 1
        return "paid"

    @tool(atomic=True)
    def book(context: ToolContext) -> str:
        CallBack.objects.create(phone="1", when="now", note=context.idempotency_key)
        return "booked"

    calls = [call("look_up"), call("pay"), call("book"), call("no_such_tool")]
    chat = an_agent(calls, "done", "next", "last", tools=[look_up, pay, book]).thread("one")
    assert (await chat.send("go", colour="red")).status == "suspended"
    assert (await chat.approve()).text == "done"
    assert ran == {"look_up": 1, "pay": 1}
    assert await in_db(CallBack.objects.count) == 1
    assert (await chat.send("and?")).text == "next"
    assert is_valid(await chat.messages())
    rows = await in_db(are_right, "one")
    assert [checkpoint.source for checkpoint in rows.checkpoints.values()].count("input") == 2
    assert Counter(event.type for event in rows.events.values())["approval_decided"] == 1
    await chat.rewind((await chat.history())[-1]["id"])
    assert (await chat.retry()).status == "suspended"
    assert (await chat.reject("no")).text == "done"
    for text in ("next", "last"):
        assert (await chat.send("and?")).text == text
    with refused("model_failed"):  # its script is over
        await chat.send("and?")
    rows = await in_db(are_right, "one")
    assert [run.status for run in rows.runs.values()] == ["completed"] * 5 + ["failed"]
    assert ran == {"look_up": 2, "pay": 1}
    assert losses.count > 25


async def test_a_submitted_run_is_in_line_once_and_runs_once(losses: Losses, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"DISPATCHER": "criogen_threads.testing.LeftInLine"}
    chat = an_agent("one", "two").thread("one")
    run_id = await chat.submit("first", client_id="a")
    assert await chat.submit("first", client_id="a") == run_id
    assert await in_db(Run.objects.count) == 1
    assert await execute((await in_db(Run.objects.get)).pk)
    assert texts(await chat.messages()) == ["user: first", "assistant: one"]
    await in_db(are_right, "one")


async def test_a_cancelled_suspended_run_and_a_partial_answer(losses: Losses) -> None:
    @tool(approval="staff")
    def pay() -> str:
        return "paid"

    chat = an_agent([call("pay"), call("pay")], "done", tools=[pay]).thread("one")
    first, _ = (await chat.send("go")).pending
    assert (await chat.decide({first["id"]: True})).status == "suspended"
    assert await chat.cancel() is True
    assert await in_db(lambda: list(ToolCall.objects.order_by("index").values_list("status", flat=True))) == [
        "ready", "void",
    ]  # fmt: skip
    await in_db(are_right, "one")


async def test_p37_delete_says_that_the_thread_existed(losses: Losses) -> None:
    chat = an_agent("one").thread("one")
    await chat.send("first")
    assert await chat.delete() is True
    assert await chat.delete() is False
    assert not await in_db(Thread.objects.exists)


async def test_an_event_of_the_site_is_there_once(losses: Losses) -> None:
    chat = an_agent("one").thread("one")
    await chat.send("first")
    event: dict[str, Any] = await chat.create_event("note", {"n": 1})
    assert [each["id"] for each in await chat.get_events(type="note")] == [event["id"]]
