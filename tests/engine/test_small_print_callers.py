"""Calls inside the caller's own transaction, and submitted runs whose process died."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from criogen_threads.engine import dispatch, lease
from criogen_threads.engine.dispatch.executing import execute
from criogen_threads.models import Run, Thread, Worker
from tests.support import an_agent, die, in_db, refused, texts

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)

WRITES = {
    "send": ("again",), "submit": ("again",), "retry": (), "cancel": (), "approve": (), "reject": (),
    "decide": ({"x": True},), "rewind": ("x",), "delete": (), "describe": (), "create_event": ("note",),
}  # fmt: skip


def _rows() -> tuple[int, ...]:
    return (Run.objects.count(), *Thread.objects.values_list("version", "event_seq").get())


@pytest.mark.parametrize("name", WRITES)
def test_a_call_inside_the_callers_transaction_is_refused(name: str) -> None:
    chat = an_agent("one").thread("one")
    chat.send_sync("first")
    before = _rows()
    with transaction.atomic():
        with refused("in_transaction"):
            getattr(chat, f"{name}_sync")(*WRITES[name])
        with refused("in_transaction"):
            async_to_sync(getattr(chat, name))(*WRITES[name])
    assert _rows() == before


def test_a_stream_and_a_turn_without_a_thread_are_refused_there_too() -> None:
    agent = an_agent("one")
    with transaction.atomic():
        with refused("in_transaction"):
            next(agent.thread("one").stream_sync("first"))
        with refused("in_transaction"):
            agent.run_sync("first")
        with refused("in_transaction"):
            async_to_sync(agent.run)("first")
    assert not Thread.objects.exists()


def test_reading_is_not_refused_there() -> None:
    chat = an_agent("one").thread("one")
    chat.send_sync("first")
    with transaction.atomic():
        assert texts(chat.messages_sync()) == ["user: first", "assistant: one"]


def test_on_commit_of_the_callers_transaction_is_the_place_for_it() -> None:
    chat = an_agent("one", "two").thread("one")
    replies: list[Any] = []
    with transaction.atomic():
        transaction.on_commit(lambda: replies.append(chat.send_sync("first")))
        transaction.on_commit(lambda: replies.append(async_to_sync(chat.send)("second")))
        assert replies == []
    assert [reply.text for reply in replies] == ["one", "two"]


async def test_a_coroutine_beside_somebody_elses_transaction_is_not_refused() -> None:
    """What counts is the caller's transaction, not one in another thread."""
    chat = an_agent("one").thread("one")
    entered = transaction.atomic()
    await in_db(_in_a_transaction, partial(lambda: entered))
    assert (await chat.send("first")).text == "one"


def _in_a_transaction(block: Any) -> None:
    with block():
        Thread.objects.exists()


class Forgets(dispatch.Dispatcher):
    """A dispatcher whose process dies before it does anything."""

    def submit(self, run_id: Any) -> None:
        pass

    def resume(self, key: str) -> None:
        pass

    def retry(self, run_id: Any) -> None:
        pass


async def _submitted_by_a_dead_process(chat: ThreadHandle, settings: SettingsWrapper) -> str:
    """A run that is first in line, and whose process is gone."""
    settings.CRIOGEN_THREADS |= {"DISPATCHER": f"{__name__}.Forgets"}
    run_id = await chat.submit("submitted")
    await die()
    settings.CRIOGEN_THREADS = {name: v for name, v in settings.CRIOGEN_THREADS.items() if name != "DISPATCHER"}
    assert not await in_db(Worker.objects.alive().exists)
    return run_id


async def test_f10_a_submit_with_a_dead_waiter_first_in_line_is_dispatched_again_by_a_send(
    settings: SettingsWrapper,
) -> None:
    chat = an_agent("one", "two").thread("one")
    run_id = await _submitted_by_a_dead_process(chat, settings)
    reply = await chat.send("sent")
    assert reply.text == "two"
    assert texts(await chat.messages()) == ["user: submitted", "assistant: one", "user: sent", "assistant: two"]
    assert [run["id"] for run in await chat.runs()] == [run_id, reply.run_id]


async def test_f10_and_by_whoever_submits_behind_it_once_its_own_turn_is_looked_at(settings: SettingsWrapper) -> None:
    chat = an_agent("one", "two").thread("one")
    await _submitted_by_a_dead_process(chat, settings)
    run_id = await in_db(Run.objects.values_list("pk", flat=True).get)
    again = await in_db(lambda: list(Run.objects.values_list("waiter", flat=True)))
    assert again != [lease.current().id]
    assert await execute(run_id) is True
    assert texts(await chat.messages()) == ["user: submitted", "assistant: one"]
    assert await execute(run_id) is True  # handed over twice, it is run once
    assert texts(await chat.messages()) == ["user: submitted", "assistant: one"]
