"""One run at a time: waiting, refusing, interrupting."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models.functions import Now

from criogen_threads.agents import tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import admission
from criogen_threads.engine.journal import lines, posts, workers
from criogen_threads.models import Run
from criogen_threads.models import Thread as ThreadRow
from tests.support import Gate, an_agent, call, gated, in_db, refused, texts, waits_and_dies

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


async def test_p10_at_most_one_run_per_thread_at_a_time() -> None:
    live: list[str] = []
    most: list[int] = []

    async def respond(messages: Any, tools: Any) -> str:
        live.append("x")
        most.append(len(live))
        await asyncio.sleep(0.01)
        live.pop()
        return "ok"

    agent = an_agent(model=ScriptedModel(respond))
    await asyncio.gather(*(agent.thread("one").send(f"message {n}") for n in range(6)))
    said = texts(await agent.thread("one").messages())
    assert max(most) == 1
    assert said[1::2] == ["assistant: ok"] * 6
    assert sorted(said[::2]) == [f"user: message {n}" for n in range(6)]
    numbers = [run["number"] for run in await agent.thread("one").runs()]
    assert numbers == sorted(set(numbers))


async def test_p10_turns_start_in_the_order_in_which_they_arrived() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "1", "2", "3", "4")).thread("one")
    tasks = [asyncio.create_task(chat.send("first"))]
    await gate.reached.wait()
    for text in ("second", "third", "fourth"):
        tasks.append(asyncio.create_task(chat.send(text)))
        while len(await chat.runs()) < len(tasks):
            await asyncio.sleep(0.005)
    gate.open()
    await asyncio.gather(*tasks)
    users = [line for line in texts(await chat.messages()) if line.startswith("user")]
    assert users == ["user: first", "user: second", "user: third", "user: fourth"]


async def test_p11_a_second_call_waits_and_then_goes_on_top_of_the_first() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    second = asyncio.create_task(chat.send("b"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    assert [run["status"] for run in await chat.runs()] == ["in_progress", "queued"]
    assert texts(await chat.messages()) == ["user: a"]  # what waits is not yet said
    gate.open()
    assert [(await first).text, (await second).text] == ["one", "two"]


async def test_p11_thread_busy_when_the_time_is_over_and_the_refused_text_is_not_stored(
    settings: SettingsWrapper,
) -> None:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 0.2}
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    before = time.monotonic()
    with refused("thread_busy"):
        await chat.send("b")
    with refused("thread_busy"):
        await chat.send("c", timeout=0.1)
    assert 0.3 <= time.monotonic() - before < 3
    assert await in_db(Run.objects.count) == 1
    gate.open()
    await first


async def test_p12_reject_is_thread_busy_at_once_on_every_way_in(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 600}
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    head = (await chat.history())[0]["id"]
    with refused("thread_busy"):
        await chat.send("b", on_busy="reject")
    with refused("thread_busy"):
        [event async for event in chat.stream("b", on_busy="reject")]
    with refused("thread_busy"):
        await chat.submit("b", on_busy="reject")
    for attempt in (chat.rewind(head, on_busy="reject"), chat.delete(on_busy="reject")):
        async with asyncio.timeout(30):
            with refused("thread_busy"):
                await attempt
    gate.open()
    assert (await first).text == "one"
    assert len(await chat.runs()) == 1


async def test_p12_the_site_s_setting_is_the_default(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"ON_BUSY": "reject"}
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    with refused("thread_busy"):
        await chat.send("b")
    waiting = asyncio.create_task(chat.send("b", on_busy="wait"))
    gate.open()
    assert [(await first).text, (await waiting).text] == ["one", "two"]


async def test_p13_interrupt_saves_the_running_call_and_goes_on() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "answer")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    second = asyncio.create_task(chat.send("b", on_busy="interrupt"))
    with refused("cancelled"):
        await first
    gate.open()
    assert (await second).text == "answer"
    assert [run["status"] for run in await chat.runs()] == ["failed", "completed"]
    assert [run["error_code"] for run in await chat.runs()] == ["cancelled", ""]
    assert texts(await chat.messages()) == ["user: a", "user: b", "assistant: answer"]


async def test_p13_interrupt_goes_ahead_of_those_who_wait() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    first = asyncio.create_task(chat.send("first"))
    await gate.reached.wait()
    waiting = asyncio.create_task(chat.send("patient"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    urgent = asyncio.create_task(chat.send("urgent", on_busy="interrupt"))
    with refused("cancelled"):
        await first
    gate.open()
    await asyncio.gather(waiting, urgent)
    users = [line for line in texts(await chat.messages()) if line.startswith("user")]
    assert users == ["user: first", "user: urgent", "user: patient"]


async def test_p13_interrupt_stops_a_tool_and_closes_its_call() -> None:
    gate = Gate()

    @tool
    async def slow() -> str:
        await gate.wait()
        return "never"

    chat = an_agent([call("slow")], "after", tools=[slow]).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    reply = await chat.send("b", on_busy="interrupt")
    with refused("cancelled"):
        await first
    assert reply.text == "after"
    closed = (await chat.messages())[2]["content"][0]["tool_result"]
    assert closed["is_error"] is True
    assert "may have taken effect" in closed["content"]


@pytest.mark.parametrize("way", ["rewind", "delete"])
async def test_p13_rewind_and_delete_can_interrupt_too(way: str) -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    head = (await chat.history())[0]["id"]
    if way == "rewind":
        assert (await chat.rewind(head, on_busy="interrupt"))["source"] == "fork"
    else:
        assert await chat.delete(on_busy="interrupt") is True
    with pytest.raises(Exception, match=r"cancelled|taken for dead"):
        await first


async def test_a_waiting_send_leaves_when_the_thread_turns_out_suspended() -> None:
    gate = Gate()

    @tool(approval="staff")
    def refund() -> str:
        return "done"

    chat = an_agent(model=gated(gate, [call("refund")], "done"), tools=[refund]).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    waiting = asyncio.create_task(chat.send("b"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    gate.open()
    assert (await first).status == "suspended"
    with refused("thread_suspended"):
        await waiting
    assert len(await chat.runs()) == 1


async def test_a_waiter_that_fell_silent_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "WAITER_SECONDS", 0)
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two", "three")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    silent = asyncio.create_task(chat.send("silent"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    monkeypatch.undo()
    gate.open()
    await first
    await silent  # it queues again under a new run, and is heard after all, once
    users = [line for line in texts(await chat.messages()) if line.startswith("user")]
    assert users == ["user: a", "user: silent"]


@pytest.mark.parametrize("how", ["dead", "silent"])
async def test_who_waits_no_more_makes_nobody_else_wait(how: str) -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    gone = await in_db(waits_and_dies, "one")
    if how == "silent":  # its process lives, and it has not shown itself in time
        waiter = (await in_db(Run.objects.get, pk=gone)).waiter
        await in_db(workers.register, waiter, "host", 1)
        await in_db(lambda: Run.objects.filter(pk=gone).update(wait_until=Now()))
    gate.open()
    await first
    assert (await chat.send("c", on_busy="reject")).text == "two"
    assert [run["number"] for run in await chat.runs()] == [1, 2]


async def test_who_waits_for_long_shows_itself_and_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "RENEW_SECONDS", 0.05)
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    waiting = asyncio.create_task(chat.send("b"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    queued = await in_db(Run.objects.get, status="queued")
    async with asyncio.timeout(30):
        while (await in_db(Run.objects.get, pk=queued.pk)).wait_until <= queued.wait_until:
            await asyncio.sleep(0.01)
    gate.open()
    await first
    assert (await waiting).run_id == str(queued.pk)


async def test_p13_an_interrupt_stops_what_came_before_it_and_nothing_else() -> None:
    """A run that a retry began behind it, from a fork, goes on: it only goes ahead of it."""
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    urgent = await in_db(waits_and_dies, "one")
    for number, marked in ((3, False), (1, True)):
        await in_db(lambda n=number: Run.objects.exclude(pk=urgent).update(number=n))
        await in_db(posts.interrupt, urgent)
        mark = (await in_db(ThreadRow.objects.get)).cancel_mark
        assert (mark is not None) == marked
    gate.open()
    await asyncio.gather(task, return_exceptions=True)


async def test_on_busy_must_be_one_of_three() -> None:
    with refused("invalid_option"):
        await an_agent("x").thread("one").send("a", on_busy="shout")
