"""The streams of a retry and of answers to approvals, beside that of a send."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import ToolCall
from tests.support import Gate, an_agent, call, gated, in_db, refused, results

if TYPE_CHECKING:
    from collections.abc import Callable

    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)

PAY = call("pay", amount=5)


@tool(approval="owner")
def pay(amount: int) -> str:
    """Pay something."""
    return f"paid {amount}"


def first_id() -> str:
    return str(ToolCall.objects.earliest("pk").pk)


ANSWERS: dict[str, tuple[Callable[[ThreadHandle, str], Any], list[Any], list[str]]] = {
    "approve": (lambda chat, _: chat.stream_approve(), ["paid 5"], ["tool_start", "tool_complete"]),
    "reject": (lambda chat, _: chat.stream_reject("too much"), [], ["tool_error"]),
    "decide": (lambda chat, pk: chat.stream_decide({pk: True}), ["paid 5"], ["tool_start", "tool_complete"]),
    "approve_sync": (lambda chat, _: chat.stream_approve_sync(), ["paid 5"], ["tool_start", "tool_complete"]),
    "reject_sync": (lambda chat, _: chat.stream_reject_sync("too much"), [], ["tool_error"]),
    "decide_sync": (lambda chat, pk: chat.stream_decide_sync({pk: True}), ["paid 5"], ["tool_start", "tool_complete"]),
}


async def told(stream: Any) -> list[dict[str, Any]]:
    """All that a stream tells; one without asyncio is read in a thread."""
    if hasattr(stream, "__aiter__"):
        return [event async for event in stream]
    return await asyncio.to_thread(list, stream)


async def is_what_was_saved(chat: ThreadHandle, events: list[dict[str, Any]], after: int) -> None:
    """The events are those on record, and the pieces are the text of the answer."""
    assert [event for event in events if "seq" in event] == await chat.events(after=after)
    assert "".join(event["text"] for event in events if event["type"] == "text_delta") == "All done."
    assert events[-1]["type"] == "reply"
    assert (events[-1]["reply"].text, events[-1]["reply"].status) == ("All done.", "completed")


@pytest.mark.parametrize("how", ANSWERS)
async def test_p8_p23_an_answer_streams_what_comes_of_it(how: str) -> None:
    answer, paid, kinds = ANSWERS[how]
    chat = an_agent([PAY], "All done.", tools=[pay]).thread("one")
    await chat.send("pay")
    suspended = (await chat.events())[-1]["seq"]
    events = await told(answer(chat, await in_db(first_id)))
    assert (await chat.events(after=suspended))[0]["type"] == "approval_decided"
    await is_what_was_saved(chat, events, suspended + 1)  # the answer was on record before the run went on
    assert [event["type"] for event in events if event["type"].startswith("tool")] == kinds
    assert [result for result in results(await chat.messages()) if result == "paid 5"] == paid


@pytest.mark.parametrize("form", ["stream_retry", "stream_retry_sync"])
async def test_p8_p18_a_retry_streams_what_comes_of_it(form: str) -> None:
    mended: list[bool] = []

    def respond(messages: Any, tools: Any) -> str:
        if not mended:
            raise ModelError("down", passing=False)
        return "All done."

    chat = an_agent(model=ScriptedModel(respond)).thread("one")
    with refused("model_failed"):
        await chat.send("hello")
    failed = (await chat.events())[-1]["seq"]
    mended.append(True)
    events = await told(getattr(chat, form)())
    await is_what_was_saved(chat, events, failed)
    assert (events[0]["type"], events[0]["details"]) == ("run_start", {"attempt": 2})
    assert [run["attempt"] for run in await chat.runs()] == [2]


async def test_p8_an_answer_that_is_not_the_last_one_streams_the_reply_alone() -> None:
    chat = an_agent([PAY, PAY], "All done.", tools=[pay]).thread("one")
    await chat.send("pay")
    [event] = await told(chat.stream_decide({await in_db(first_id): True}))
    assert (event["type"], event["reply"].status, len(event["reply"].pending)) == ("reply", "suspended", 1)
    events = await told(chat.stream_approve())
    assert [each["type"] for each in events].count("tool_complete") == 2


@pytest.mark.parametrize("form", ["stream_approve", "stream_retry"])
async def test_p9_leaving_the_stream_of_an_answer_or_a_retry_stops_the_run_which_is_saved_by_then(form: str) -> None:
    chat = an_agent([PAY], ModelError("down", passing=False), tools=[pay]).thread("one")
    await chat.send("pay")
    if form == "stream_retry":
        with refused("model_failed"):
            await chat.approve()
    gate = Gate()
    chat = an_agent(model=gated(gate, "never"), tools=[pay]).thread("one")
    async with aclosing(getattr(chat, form)()) as events:
        await anext(events)
        await gate.reached.wait()
    [run] = await chat.runs()
    assert (run["status"], run["error_code"]) == ("failed", "cancelled")
    assert results(await chat.messages()) == ["paid 5"]


async def test_p8_what_is_refused_is_raised_at_the_first_event_and_nothing_is_written() -> None:
    chat = an_agent([PAY], "All done.", tools=[pay]).thread("one")
    for stream, code in (
        (chat.stream_retry(), "resume_invalid"),
        (chat.stream_approve(), "resume_invalid"),
        (chat.stream_decide({}), "resume_invalid"),
        (chat.stream_decide({"x": True}), "resume_invalid"),
        (chat.stream_reject("\ud800"), "resume_invalid"),
    ):
        with refused(code):
            await told(stream)
    await chat.send("pay")
    with refused("thread_suspended"):
        await told(chat.stream_retry())
    assert [event["type"] for event in await chat.events()][-1] == "approval_requested"
