"""Signals come after the commit, at most once, with what they document; a receiver that fails hurts nobody."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.db import InterfaceError, connection

from criogen_threads import signals
from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.engine.journal.pen import Pen
from criogen_threads.engine.journal.statements import Session
from criogen_threads.models import Checkpoint, Run, Thread, ToolCall
from tests.support import an_agent, call, forget_agents, in_db, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.dispatch import Signal
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

ALL = {name: signal for name, signal in vars(signals).items() if isinstance(signal, signals.Signal)}


class Heard(list[tuple[str, dict[str, Any]]]):
    """What receivers got, in order."""

    def names(self) -> list[str]:
        return [name for name, _ in self]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [arguments for heard, arguments in self if heard == name]


@contextmanager
def connected(signal: Signal, receiver: Any) -> Iterator[None]:
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        assert signal.disconnect(receiver)


@pytest.fixture(autouse=True)
def quick(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"MODEL_RETRIES": 0}
    yield
    forget_agents()


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Every signal of the package."""
    heard = Heard()

    def receive(name: str, sender: object, signal: Signal, **arguments: Any) -> None:
        assert sender is Thread
        assert not connection.in_atomic_block, "inside the transaction that it speaks of"
        heard.append((name, arguments))

    with ExitStack() as stack:
        for name, signal in ALL.items():
            stack.enter_context(connected(signal, partial(receive, name)))
        yield heard


@tool(approval="staff")
def refund() -> str:
    return "refunded"


async def test_the_life_of_a_run_is_told_with_the_arguments_that_are_documented(heard: Heard) -> None:
    chat = an_agent([call("refund")], "done", tools=[refund], name="teller").thread("user-42")
    [pending] = (await chat.send("refund")).pending
    await chat.reject("no")
    thread, row = await in_db(Thread.objects.get), await in_db(ToolCall.objects.get)
    own = {"thread": "user-42", "thread_id": thread.pk}
    run = {**own, "run_id": row.run_id}
    agent = {**run, "agent": "teller"}
    one_call = {**run, "call_id": row.pk, "tool": "refund"}
    assert str(row.pk) == pending["id"]
    assert heard == [
        ("run_started", {**agent, "attempt": 1}),
        ("approval_requested", {**one_call, "approver": "staff"}),
        ("run_suspended", {**agent, "pending": 1}),
        ("approval_decided", {**one_call, "approved": False, "decided_by": None}),
        ("run_started", {**agent, "attempt": 1}),
        ("run_finished", {**agent, "status": "completed", "error_code": ""}),
    ]
    heard.clear()
    target = (await chat.history())[-1]["id"]
    head = await chat.rewind(target)
    await chat.delete()
    [rewound, deleted] = heard
    assert rewound[0] == "thread_rewound"
    assert {name: str(value) for name, value in rewound[1].items()} == {
        "thread": "user-42", "thread_id": str(thread.pk), "checkpoint_id": target, "head": head["id"],
    }  # fmt: skip
    assert deleted == ("thread_deleted", own)


async def test_a_failed_run_is_told_with_its_code_and_a_retry_with_its_attempt(heard: Heard) -> None:
    chat = an_agent(ModelError("down", passing=False)).thread("one")
    with refused("model_failed"):
        await chat.send("a")
    with refused("model_failed"):
        await chat.retry()
    assert heard.names() == ["run_started", "run_finished"] * 2
    assert [each["attempt"] for each in heard.of("run_started")] == [1, 2]
    assert {(each["status"], each["error_code"]) for each in heard.of("run_finished")} == {("failed", "model_failed")}


async def test_a_receiver_sees_the_rows_that_the_signal_speaks_of() -> None:
    seen: list[Any] = []

    def look(run_id: Any, **_: Any) -> None:
        seen.append((Run.objects.get(pk=run_id).status, Thread.objects.get().status, Thread.objects.get().holder))

    with connected(signals.run_finished, look):
        await an_agent("hello").thread("one").send("a")
    assert seen == [("completed", "idle", None)]


async def test_nothing_is_told_of_a_write_that_was_rolled_back(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = an_agent("hello").thread("one")
    await chat.send("a")
    target = (await chat.history())[-1]["id"]
    heard.clear()
    write = Pen.write

    def broken(pen: Pen) -> Any:
        write(pen)
        raise LookupError("after the rows, before the commit")

    monkeypatch.setattr(Pen, "write", broken)
    with pytest.raises(LookupError):
        await chat.rewind(target)
    monkeypatch.undo()
    assert heard == []
    assert not await in_db(Checkpoint.objects.filter(source="fork").exists)
    await chat.rewind(target)
    assert heard.names() == ["thread_rewound"]


@pytest.mark.parametrize("lost_it", ["before", "after"])
async def test_told_once_although_the_save_was_repeated_after_a_lost_answer(
    lost_it: str, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the COMMIT had taken effect, or never came."""
    lost: list[int] = []
    transaction = Session.transaction

    @contextmanager
    def loses_its_answers(session: Session) -> Iterator[None]:
        with transaction(session):
            yield
            if lost_it == "before" and not session.repeats:
                lost.append(1)
                raise InterfaceError("the connection went away before the COMMIT")
        if lost_it == "after" and not session.repeats:
            lost.append(1)
            session.connection.close()
            raise InterfaceError("the connection went away after the COMMIT")

    monkeypatch.setattr(Session, "transaction", loses_its_answers)
    reply = await an_agent("hello").thread("one").send("a")
    assert (reply.text, len(lost)) == ("hello", 2)  # both saves of the turn
    assert heard.names() == ["run_started", "run_finished"]


async def test_a_receiver_that_raises_is_logged_and_the_others_still_hear(
    caplog: pytest.LogCaptureFixture, heard: Heard
) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("no")

    with connected(signals.run_started, broken), caplog.at_level(logging.ERROR, "django.dispatch"):
        reply = await an_agent("hello").thread("one").send("a")
    assert reply.text == "hello"
    assert heard.names() == ["run_started", "run_finished"]
    assert "RuntimeError: no" in caplog.text
