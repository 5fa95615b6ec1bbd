"""The limits of an agent: steps, tokens, seconds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Thread
from tests.support import Gate, an_agent, call, in_db, is_valid, refused, results

pytestmark = pytest.mark.django_db(transaction=True)


@tool
def look() -> str:
    return "seen"


def forever(**limits: Any) -> Any:
    """A thread whose model asks for one tool call after the other."""
    model = ScriptedModel(lambda messages, tools: [call("look")])
    return an_agent(model=model, tools=[look], **limits).thread("one")


async def test_p17_max_steps_ends_the_run_after_so_many_answers_and_their_results() -> None:
    chat = forever(max_steps=3)
    with refused("limit_reached") as caught:
        await chat.send("a")
    assert "3 steps" in str(caught.value)
    messages = await chat.messages()
    assert [message["role"] for message in messages].count("assistant") == 3
    assert results(messages) == ["seen"] * 3  # nothing that was asked for is left open
    assert is_valid(messages)


async def test_p17_a_run_that_needs_exactly_its_steps_completes() -> None:
    chat = an_agent([call("look")], [call("look")], "done", tools=[look], max_steps=3).thread("one")
    assert (await chat.send("a")).text == "done"


async def test_p18_limits_count_from_the_last_retry() -> None:
    chat = forever(max_steps=2)
    with refused("limit_reached"):
        await chat.send("a")
    with refused("limit_reached"):
        await chat.retry()
    assert [message["role"] for message in await chat.messages()].count("assistant") == 4
    [run] = await chat.runs()
    assert (run["attempt"], run["usage"]["requests"]) == (2, 4)


async def test_limits_do_not_count_anew_after_an_approval() -> None:
    @tool(approval="staff")
    def ask() -> str:
        return "yes"

    chat = an_agent([call("ask")], [call("look")], "done", tools=[ask, look], max_steps=2).thread("one")
    await chat.send("a")
    with refused("limit_reached"):
        await chat.approve()


async def test_each_run_has_its_own_steps() -> None:
    chat = an_agent([call("look")], "one", [call("look")], "two", tools=[look], max_steps=2).thread("one")
    assert (await chat.send("a")).text == "one"
    assert (await chat.send("b")).text == "two"


async def test_p17_max_tokens() -> None:
    chat = forever(max_tokens=60)
    with refused("limit_reached") as caught:
        await chat.send("a")
    assert "60 tokens" in str(caught.value)
    [run] = await chat.runs()
    assert run["usage"]["input_tokens"] + run["usage"]["output_tokens"] >= 60
    with refused("limit_reached"):
        await chat.retry()
    [again] = await chat.runs()
    assert again["usage"]["requests"] > run["usage"]["requests"]  # the tokens count from the retry, too


async def test_p17_max_seconds_stops_a_slow_model() -> None:
    gate = Gate()

    async def respond(messages: Any, tools: Any) -> str:
        await gate.wait()
        return "late"

    chat = an_agent(model=ScriptedModel(respond), max_seconds=0.1).thread("one")
    with refused("limit_reached") as caught:
        await chat.send("a")
    assert "0.1 seconds" in str(caught.value)
    [run] = await chat.runs()
    assert (run["status"], run["error_code"]) == ("failed", "limit_reached")
    gate.open()
    assert (await chat.retry()).text == "late"


async def test_p17_max_seconds_stops_a_slow_tool() -> None:
    @tool
    async def slow() -> str:
        await asyncio.sleep(60)
        return "never"

    chat = an_agent([call("slow")], "fine", tools=[slow], max_seconds=0.3).thread("one")
    with refused("limit_reached"):
        await chat.send("a")
    assert (await chat.send("b")).text == "fine"
    assert "may have taken effect" in results(await chat.messages())[0]


async def test_usage_adds_up_over_requests_and_on_the_thread() -> None:
    chat = an_agent([call("look")], "one", "two", tools=[look]).thread("one")
    first, second = await chat.send("a"), await chat.send("b")
    assert (first.usage["requests"], second.usage["requests"]) == (2, 1)
    assert [run["usage"] for run in await chat.runs()] == [first.usage, second.usage]
    spent = sum(usage[name] for usage in (first.usage, second.usage) for name in ("input_tokens", "output_tokens"))
    assert (await in_db(Thread.objects.get)).tokens == spent
