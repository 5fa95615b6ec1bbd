"""One turn: what is written, what the model is given, what comes back."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from criogen_threads.agents import ToolContext, tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Checkpoint, Message, Run, Thread, ToolCall
from criogen_threads.threads import ThreadHandle
from tests.support import Heard, an_agent, call, in_db, is_valid, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_p1_a_handle_writes_nothing_and_the_first_send_creates_the_thread() -> None:
    agent = an_agent("Hello!")
    chat = agent.thread("user-1")
    assert await chat.messages() == []
    assert await chat.history() == []
    assert await chat.runs() == []
    assert not await in_db(Thread.objects.exists)
    await chat.send("Hi")
    stored = await in_db(Thread.objects.get)
    assert (stored.key, stored.agent, stored.owner_id) == ("user-1", "helper", None)


async def test_p2_two_handles_on_one_id_are_the_same_conversation() -> None:
    agent = an_agent("one", "two")
    await agent.thread("user-1").send("first")
    await agent.thread("user-1").send("second")
    other = agent.thread("user-1")
    assert texts(await other.messages()) == ["user: first", "assistant: one", "user: second", "assistant: two"]
    assert set(vars(other)) == {"id", "agent", "actor"}


async def test_p4_send_runs_exactly_one_turn_and_returns_a_reply() -> None:
    chat = an_agent("one", "two").thread("user-1")
    await chat.send("first")
    reply = await chat.send("second", plan="pro")
    assert (reply.text, reply.status, reply.pending) == ("two", "completed", [])
    assert texts(reply.messages) == ["user: second", "assistant: two"]
    assert reply.usage["requests"] == 1
    assert reply.usage["input_tokens"] > 0
    runs = await chat.runs()
    assert [run["id"] for run in runs][-1] == reply.run_id
    assert [run["number"] for run in runs] == [1, 2]


async def test_p5_the_model_is_given_the_whole_conversation_on_every_turn() -> None:
    model = Heard("one", [call("add", a=1, b=2)], "three", "four")
    chat = an_agent(model=model, tools=[add]).thread("user-1")
    for text in ("a", "b", "c"):
        await chat.send(text)
    assert texts(model.given[-1]) == [
        "user: a", "assistant: one", "user: b", "assistant: add()", "tool: 3", "assistant: three", "user: c",
    ]  # fmt: skip
    for given in model.given:
        assert is_valid(given)
        assert all(set(message) == {"role", "content"} for message in given)


async def test_p6_progress_is_saved_when_the_message_arrives_and_after_every_step_and_tool_call() -> None:
    seen: list[Any] = []

    @tool
    async def look(word: str) -> str:
        seen.append([word, texts(await chat.messages())])
        return word

    script = ScriptedModel.of([call("look", word="x")], "done").respond

    async def respond(messages: Any, tools: Any) -> Any:
        seen.append([(h["source"], h["step"]) for h in await chat.history()])
        return script(messages, tools)

    chat = an_agent(model=ScriptedModel(respond), tools=[look]).thread("user-1")
    await chat.send("Hi")
    assert seen == [
        [("input", 0)],
        ["x", ["user: Hi", "assistant: look()"]],
        [("step", 1), ("step", 1), ("input", 0)],
    ]
    assert [h["step"] for h in await chat.history()] == [2, 1, 1, 0]


async def test_p6_a_plain_turn_is_two_checkpoints_and_one_with_a_tool_call_is_four() -> None:
    chat = an_agent("plain", [call("add", a=1, b=1)], "two", tools=[add]).thread("user-1")
    await chat.send("Hi")
    assert (await in_db(Thread.objects.get)).version == 2
    await chat.send("1+1?")
    assert (await in_db(Thread.objects.get)).version == 6


def test_p7_send_sync_and_its_siblings() -> None:
    chat = an_agent("one", "two").thread("user-1")
    assert chat.send_sync("Hi").text == "one"
    assert [e["type"] for e in chat.stream_sync("more")][-1] == "reply"
    assert texts(chat.messages_sync())[-1] == "assistant: two"
    assert len(chat.history_sync(limit=3)) == 3
    assert chat.delete_sync() is True


def test_p7_every_call_has_its_sync_form() -> None:
    calls = [
        name
        for name, member in inspect.getmembers(ThreadHandle)
        if not name.startswith("_") and (inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member))
    ]
    assert {"send", "stream", "submit", "approve", "reject", "decide", "retry", "cancel", "rewind"} <= set(calls)
    assert [name for name in calls if not callable(getattr(ThreadHandle, f"{name}_sync", None))] == []


async def test_p7_agent_run_is_a_turn_without_a_thread() -> None:
    agent = an_agent([call("add", a=20, b=22)], "42", tools=[add])
    reply = await agent.run("20+22?")
    assert (reply.text, reply.status) == ("42", "completed")
    assert texts(reply.messages) == ["user: 20+22?", "assistant: add()", "tool: 42", "assistant: 42"]
    for model in (Thread, Run, Message, Checkpoint, ToolCall):
        assert not await in_db(model.objects.exists)


def test_p7_agent_run_sync_gives_state_and_actor_to_the_tools() -> None:
    seen: list[ToolContext] = []

    @tool
    def peek(context: ToolContext) -> str:
        seen.append(context)
        return "ok"

    assert an_agent([call("peek")], "done", tools=[peek]).run_sync("Hi", plan="pro").text == "done"
    assert (seen[0].state, seen[0].actor) == ({"plan": "pro"}, None)


async def test_p8_stream_runs_the_same_turn_and_yields_its_events() -> None:
    chat = an_agent([{"text": "Let me add. "}, call("add", a=1, b=2)], "It is three.", tools=[add]).thread("s")
    events = [event async for event in chat.stream("1+2?")]
    kinds = [event["type"] for event in events]
    saved = [event for event in events if "seq" in event]
    assert saved == await chat.get_events()
    assert [event["type"] for event in saved] == [
        "run_start", "message", "agent_start", "message", "tool_start", "tool_complete", "message",
        "agent_complete", "run_complete",
    ]  # fmt: skip
    assert kinds[-1] == "reply"
    assert events[-1]["reply"].text == "It is three."
    pieces = "".join(event["text"] for event in events if event["type"] == "text_delta")
    assert pieces == "Let me add. It is three."
    assert kinds.index("text_delta") < kinds.index("tool_start")


async def test_p8_live_pieces_carry_the_id_of_the_message_that_is_saved() -> None:
    chat = an_agent("Hello there, friend").thread("s")
    events = [event async for event in chat.stream("Hi")]
    live = {event["message_id"] for event in events if event["type"] == "text_delta"}
    last = await chat.get_last_message()
    assert last is not None
    assert live == {last["id"]}


async def test_b7_every_message_is_a_run_of_its_own_and_carries_its_id() -> None:
    chat = an_agent("one", "two").thread("user-1")
    first, second = await chat.send("a"), await chat.send("b")
    assert first.run_id != second.run_id
    users = [m["run_id"] for m in await chat.messages() if m["role"] == "user"]
    assert users == [first.run_id, second.run_id]


async def test_b8_several_rounds_and_several_calls_in_one_answer() -> None:
    rounds = [[call("add", a=1, b=2), call("add", a=3, b=4)], [call("add", a=3, b=7)], "ten"]
    chat = an_agent(*rounds, tools=[add]).thread("user-1")
    reply = await chat.send("sum")
    assert reply.text == "ten"
    assert sorted(results(reply.messages)) == [3, 7, 10]
    assert is_valid(await chat.messages())


async def test_b21_two_threads_of_one_agent_never_see_each_other() -> None:
    model = Heard("one", "two")
    agent = an_agent(model=model)
    await agent.thread("a").send("secret of a")
    await agent.thread("b").send("hello")
    assert texts(model.given[1]) == ["user: hello"]
    assert texts(await agent.thread("b").messages()) == ["user: hello", "assistant: one"]
    assert len(await agent.thread("a").runs()) == 1
