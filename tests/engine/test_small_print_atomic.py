"""Atomic tools: long ones, and those whose writes go wrong."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from django.db import IntegrityError, connection, transaction

from criogen_threads.agents import tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import lease
from criogen_threads.engine.transcript import TOOL_FAILED
from criogen_threads.models import Run, ToolCall, Worker
from project.desk.models import CallBack, Order
from tests.support import an_agent, call, in_db, results

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from criogen_threads.agents import Tool
    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)

postgres_only = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
MISSING = 4_000_000


def a_thread(*tools: Tool) -> ThreadHandle:
    """Its model asks for each of the tools once, side by side."""
    return an_agent([call(each.name) for each in tools], "done", tools=tools).thread("one")


async def wait_for(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 10)


def book(note: str = "booked") -> CallBack:
    return CallBack.objects.create(phone="1", when="now", note=note)


@postgres_only
async def test_a_long_atomic_tool_holds_up_no_submit_no_sibling_and_no_beat(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"LEASE_SECONDS": 2, "HEARTBEAT_SECONDS": 0.05}
    started, go_on, ran = threading.Event(), threading.Event(), []

    @tool(atomic=True)
    def long_one() -> str:
        ran.append("long")
        book()
        started.set()
        assert go_on.wait(20)
        return "booked"

    @tool
    async def sibling() -> str:
        await wait_for(started)
        return "sibling"

    chat = a_thread(long_one, sibling)
    sending = asyncio.create_task(chat.send("go"))
    try:
        await wait_for(started)
        while results(await chat.messages()) != ["sibling"]:
            await asyncio.sleep(0.005)
        beat = (await in_db(Worker.objects.get)).expires_at
        while (await in_db(Worker.objects.get)).expires_at <= beat:
            await asyncio.sleep(0.005)
        run_id = await chat.submit("and then")
        await chat.describe(title="It is long")
        assert not sending.done()
        assert not await in_db(CallBack.objects.exists)
    finally:
        go_on.set()
    assert (await sending).text == "done"
    while (await chat.get_run(run_id) or {})["status"] == "queued":
        await asyncio.sleep(0.005)
    assert results(await chat.messages()) == ["sibling", "booked"]
    assert await in_db(CallBack.objects.count) == 1
    assert ran == ["long"]  # it was not the server that made room, by ending a transaction that held the thread


async def test_f08_an_atomic_tool_of_three_seconds_outlasts_a_lease_of_one(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"LEASE_SECONDS": 1, "HEARTBEAT_SECONDS": 0.3}
    ran: list[str] = []

    @tool(atomic=True)
    def long_one() -> str:
        ran.append("long")
        book()
        time.sleep(3)
        return "booked"

    worker = await in_db(lease.current().ensure)
    assert (await a_thread(long_one).send("go")).text == "done"
    assert ran == ["long"]
    assert await in_db(CallBack.objects.count) == 1
    while not await in_db(Worker.objects.alive().exists):
        await asyncio.sleep(0.01)
    assert lease.current().id == worker  # nobody has taken it for dead, itself neither


async def test_a_swallowed_database_error_is_a_tool_error_and_undoes_every_write() -> None:
    await in_db(Order.objects.create, number="A1", customer="Ann", item="lamp", total=10)

    @tool(atomic=True)
    def careless() -> str:
        book()
        with suppress(IntegrityError):
            Order.objects.create(number="A1", customer="Bob", item="lamp", total=10)
        return "all is well"

    chat = a_thread(careless)
    assert (await chat.send("go")).text == "done"
    assert results(await chat.messages()) == [TOOL_FAILED]
    assert not await in_db(CallBack.objects.exists)
    assert (await in_db(ToolCall.objects.get)).status == "error"


async def test_an_error_that_the_tool_dealt_with_in_a_savepoint_is_none() -> None:
    await in_db(Order.objects.create, number="A1", customer="Ann", item="lamp", total=10)

    @tool(atomic=True)
    def careful() -> str:
        book()
        try:
            with transaction.atomic():
                Order.objects.create(number="A1", customer="Bob", item="lamp", total=10)
        except IntegrityError:
            return "there was one already"
        return "new"

    chat = a_thread(careful)
    await chat.send("go")
    assert results(await chat.messages()) == ["there was one already"]
    assert await in_db(CallBack.objects.count) == 1


@pytest.mark.parametrize("found", ["when the tool ends", "by the COMMIT"])
async def test_a_deferred_constraint_is_a_tool_error_and_undoes_every_write(
    found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if found == "by the COMMIT":
        monkeypatch.setattr(type(connection._connections[connection._alias]), "check_constraints", lambda self: None)
    ran: list[str] = []

    @tool(atomic=True)
    def dangling() -> str:
        ran.append("dangling")
        CallBack.objects.create(order_id=MISSING, phone="1", when="now")
        return "booked"

    @tool(atomic=True)
    def sound() -> str:
        book()
        return "booked"

    chat = a_thread(dangling, sound)
    assert (await chat.send("go")).text == "done"
    assert results(await chat.messages()) == [TOOL_FAILED, "booked"]
    assert ran == ["dangling"]
    assert await in_db(lambda: list(CallBack.objects.values_list("order", "note"))) == [(None, "booked")]
    assert await in_db(lambda: list(ToolCall.objects.order_by("index").values_list("status", flat=True))) == [
        "error", "done",
    ]  # fmt: skip


@postgres_only
async def test_a_deferred_constraint_is_found_while_the_tool_can_still_be_run_again() -> None:
    ran: list[str] = []

    @tool(atomic=True, retries=1)
    def unlucky() -> str:
        ran.append("try")
        CallBack.objects.create(order_id=MISSING if len(ran) == 1 else None, phone="1", when="now")
        return "booked"

    chat = a_thread(unlucky)
    await chat.send("go")
    assert (ran, results(await chat.messages())) == (["try", "try"], ["booked"])
    assert await in_db(lambda: list(CallBack.objects.values_list("order", flat=True))) == [None]


@postgres_only
async def test_a_deadlock_runs_an_atomic_tool_again_and_its_rows_are_there_once() -> None:
    for number in ("A1", "B1"):
        await in_db(Order.objects.create, number=number, customer="Ann", item="lamp", total=10)
    tries: list[str] = []
    first_taken, second_taken = threading.Event(), threading.Event()

    def touch(number: str) -> None:
        Order.objects.filter(number=number).update(item="touched")

    @tool(atomic=True)
    def crossing() -> str:
        tries.append("try")
        book(f"try {len(tries)}")
        touch("A1")
        first_taken.set()
        assert second_taken.wait(10)
        touch("B1")
        return "booked"

    def other() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '30s'")  # so that the tool is the victim
            assert first_taken.wait(10)
            touch("B1")
            second_taken.set()
            touch("A1")
        connection.close()

    crossed = asyncio.create_task(asyncio.to_thread(other))
    chat = a_thread(crossing)
    assert (await chat.send("go")).text == "done"
    await crossed
    assert len(tries) == 2
    assert results(await chat.messages()) == ["booked"]
    assert await in_db(lambda: list(CallBack.objects.values_list("note", flat=True))) == ["try 2"]
    assert (await in_db(Run.objects.get)).attempt == 1


async def test_an_on_commit_hook_that_raises_undoes_nothing_and_runs_nothing_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran: list[str] = []

    def broken_hook() -> None:
        raise LookupError("the hook is broken")

    @tool(atomic=True)
    def hooked() -> str:
        ran.append("hooked")
        book()
        transaction.on_commit(broken_hook)
        transaction.on_commit(lambda: ran.append("another hook"))
        return "booked"

    chat = a_thread(hooked)
    with caplog.at_level(logging.ERROR, "criogen_threads"):
        assert (await chat.send("go")).text == "done"
    assert "the hook is broken" in caplog.text
    assert ran[0] == "hooked"
    assert ran.count("hooked") == 1
    assert results(await chat.messages()) == ["booked"]
    assert await in_db(CallBack.objects.count) == 1
    assert [checkpoint["version"] for checkpoint in await chat.history()] == [4, 3, 2, 1]


async def test_atomic_calls_of_a_batch_run_one_after_the_other() -> None:
    busy: list[str] = []
    most: list[int] = []

    @tool(atomic=True)
    def alone() -> str:
        busy.append("x")
        most.append(len(busy))
        time.sleep(0.02)
        busy.pop()
        return "booked"

    chat = an_agent(model=ScriptedModel.of([call("alone")] * 3, "done"), tools=[alone]).thread("one")
    await chat.send("go")
    assert most == [1, 1, 1]
