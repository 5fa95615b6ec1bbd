"""The same client_id sent twice is the same run."""

from __future__ import annotations

import asyncio

import pytest

from criogen_threads.backends.base import ModelError
from criogen_threads.models import Run
from tests.support import Gate, an_agent, gated, in_db, refused, texts, waits_and_dies

pytestmark = pytest.mark.django_db(transaction=True)


async def test_f07_the_same_client_id_returns_the_first_run_s_reply() -> None:
    chat = an_agent("one", "two").thread("one")
    first = await chat.send("a", client_id="c1")
    again = await chat.send("a", client_id="c1")
    assert again == first
    assert await in_db(Run.objects.count) == 1
    assert (await chat.send("a", client_id="c2")).text == "two"
    assert await chat.submit("a", client_id="c1") == first.run_id


async def test_f07_with_another_text_it_is_a_conflict() -> None:
    chat = an_agent("one").thread("one")
    await chat.send("a", client_id="c1")
    for attempt in (chat.send, chat.submit):
        with refused("client_id_conflict"):
            await attempt("b", client_id="c1")
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]


async def test_f07_two_at_once_are_one_turn() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    first = asyncio.create_task(chat.send("a", client_id="c1"))
    await gate.reached.wait()
    second = asyncio.create_task(chat.send("a", client_id="c1"))
    await asyncio.sleep(0)
    gate.open()
    assert (await first) == (await second)
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]


async def test_f07_the_same_id_in_another_thread_is_another_turn() -> None:
    agent = an_agent("one")
    first = await agent.thread("one").send("a", client_id="c1")
    second = await agent.thread("two").send("b", client_id="c1")
    assert first.run_id != second.run_id


async def test_f07_the_reply_of_a_failed_run_is_its_failure() -> None:
    chat = an_agent(ModelError("down", passing=False)).thread("one")
    for _ in range(2):
        with refused("model_failed"):
            await chat.send("a", client_id="c1")
    assert await in_db(Run.objects.count) == 1


async def test_f07_cancelling_the_second_call_does_not_stop_the_first() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    first = asyncio.create_task(chat.send("a", client_id="c1"))
    await gate.reached.wait()
    second = asyncio.create_task(chat.send("a", client_id="c1"))
    await asyncio.sleep(0.05)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.open()
    assert (await first).text == "one"


@pytest.mark.parametrize("way", ["send", "submit"])
async def test_f10_a_call_that_died_in_line_was_not_sent(way: str) -> None:
    """Sent again, by whatever way in, it is not taken for one that is on its way: nobody would ever run it."""
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    dead = await in_db(waits_and_dies, "one", client_id="c1")
    again = asyncio.create_task(chat.send("b", client_id="c1") if way == "send" else chat.submit("b", client_id="c1"))
    if way == "submit":
        assert await again != str(dead)
    gate.open()
    await first
    await again
    while (await chat.runs())[-1]["status"] != "completed":
        await asyncio.sleep(0.01)
    assert texts(await chat.messages()) == ["user: a", "assistant: one", "user: b", "assistant: two"]
    assert not await in_db(Run.objects.filter(pk=dead).exists)


async def test_the_run_says_its_client_id() -> None:
    chat = an_agent("one").thread("one")
    await chat.send("a", client_id="c1")
    assert [run["client_id"] for run in await chat.runs()] == ["c1"]
    for wrong in ("", "x" * 201, "a\0b", 5):
        with refused("invalid_option"):
            await chat.send("b", client_id=wrong)  # type: ignore[arg-type]
