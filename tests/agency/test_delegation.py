"""One agent asks another: a run and a conversation of its own, and its answer as a tool's result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from criogen_threads.agents import Agent, ToolContext, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from tests.agency.support import a_desk, an_agency, ask, events_of, given, runs_of, statuses, threads_of
from tests.support import Gate, Heard, call, gated, in_db, refused, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


async def test_b17_delegation_is_a_tool_call_with_a_run_of_its_own() -> None:
    agency = a_desk([[ask("billing", "What does Ada owe?")], "You owe 40."], ["Ada owes 40."])
    chat = await agency.create_thread(thread_id="one")
    reply = await chat.send("What do I owe?")
    assert reply.text == "You owe 40."
    assert texts(await chat.messages()) == [
        "user: What do I owe?", "assistant: delegate()", "tool: Ada owes 40.", "assistant: You owe 40.",
    ]  # fmt: skip
    assert await in_db(statuses, "one") == [("front", "completed"), ("billing", "completed")]
    caller, child = await in_db(runs_of, "one")
    assert child.parent_run_id == caller.pk
    asked = await in_db(ToolCall.objects.get, run=caller)
    assert (asked.child_run_id, asked.status) == (child.pk, "done")
    first, second = await in_db(threads_of, "one")
    assert (second.parent_id, second.agent, second.status, second.holder) == (first.pk, "billing", "idle", None)
    said = await in_db(lambda: list(Message.objects.filter(thread=second).order_by("position")))
    assert [(m.role, m.agent, m.run_id) for m in said] == [
        ("user", "billing", child.pk), ("assistant", "billing", child.pk),
    ]  # fmt: skip
    assert said[0].metadata == {"asked_by": "front"}


async def test_b17_a_specialist_remembers_the_conversation_that_asks() -> None:
    agency = a_desk([[ask("billing", "first")], "one", [ask("billing", "second")], "two"], ["alpha", "beta"])
    chat, other = await agency.create_thread(), await agency.create_thread()
    await chat.send("a")
    await chat.send("b")
    assert texts(given(agency.agents["billing"])[-1]) == ["user: first", "assistant: alpha", "user: second"]
    assert results(await chat.messages()) == ["alpha", "beta"]
    await other.send("c")
    assert texts(given(agency.agents["billing"])[-1]) == ["user: first"]  # B21: nothing of the first conversation
    assert await in_db(Thread.objects.filter(agent="billing").count) == 2


async def test_b17_several_delegations_of_one_answer_run_side_by_side() -> None:
    here, there = Gate(), Gate()
    agency = a_desk([[ask("billing"), ask("travel")], "both"])
    agency.agents["billing"].__dict__["backend"] = gated(here, "b")
    agency.agents["travel"].__dict__["backend"] = gated(there, "t")
    chat = await agency.create_thread()
    turn = asyncio.create_task(chat.send("go"))
    await here.reached.wait()
    await there.reached.wait()  # while the other one still works
    here.open()
    there.open()
    assert (await turn).text == "both"
    assert sorted(results(await chat.messages())) == ["b", "t"]


async def test_one_specialist_that_is_asked_twice_in_one_answer_does_one_after_the_other() -> None:
    agency = a_desk([[ask("billing", "first"), ask("billing", "second")], "both"], ["alpha", "beta"])
    chat = await agency.create_thread(thread_id="one")
    assert (await chat.send("go")).text == "both"
    assert results(await chat.messages()) == ["alpha", "beta"]
    assert texts(given(agency.agents["billing"])[1]) == ["user: first", "assistant: alpha", "user: second"]
    assert await in_db(statuses, "one") == [("front", "completed"), ("billing", "completed"), ("billing", "completed")]


@pytest.mark.parametrize(
    ("delegates", "max_depth", "said"),
    [
        ({"a": ["b"], "b": ["a"]}, 3, "a cannot be asked: it waits for your own answer (a → b). Answer it instead."),
        ({"a": ["b"], "b": ["c"]}, 1, "Nobody can be asked from here: a → b is as deep as it goes. Do it yourself."),
    ],
)
async def test_b17_depth_and_cycles_are_bounded_by_a_clear_error(
    delegates: dict[str, list[str]], max_depth: int, said: str
) -> None:
    agents = [
        Agent("a", model=Heard([ask("b")], "done")),
        Agent("b", model=Heard([ask(delegates["b"][0])], "so be it")),
        Agent("c", model=Heard("never")),
    ]
    agency = an_agency(entry=agents[0], specialists=agents[1:], delegates=delegates, max_depth=max_depth)
    chat = await agency.create_thread(thread_id="one")
    assert (await chat.send("go")).text == "done"
    child = (await in_db(threads_of, "one"))[1]
    handle = await agency.get_thread(child.key)
    assert handle is not None
    assert results(await handle.messages()) == [said]
    assert await in_db(statuses, "one") == [("a", "completed"), ("b", "completed")]


async def test_b17_who_may_talk_to_whom_is_directed() -> None:
    agency = a_desk([[ask("travel")], "well"], delegates={"front": ["billing"], "travel": ["billing"]})
    chat = await agency.create_thread(thread_id="one")
    await chat.send("go")
    [said] = results(await chat.messages())
    assert "agent: is not one of ['billing']" in said
    assert await in_db(statuses, "one") == [("front", "completed")]
    assert "delegate" not in agency.agents["billing"].tools


async def test_b9_a_specialist_that_reaches_its_limit_is_told_to_the_caller() -> None:
    agents = [Agent("a", model=Heard([ask("b")], "sorry")), Agent("b", model=Heard([call("no")] * 2), max_steps=1)]
    agents[1].__dict__["backend"] = Heard([call("no")], [call("no")])
    chat = await an_agency(entry=agents[0], specialists=agents[1:]).create_thread(thread_id="one")
    assert (await chat.send("go")).text == "sorry"
    assert results(await chat.messages()) == ["b did not finish: the run took 1 steps"]
    assert await in_db(statuses, "one") == [("a", "completed"), ("b", "failed")]


async def test_b10_p18_a_specialist_whose_model_is_down_fails_the_caller_and_retry_goes_on_there() -> None:
    ran: list[str] = []

    @tool
    def look() -> str:
        ran.append("look")
        return "seen"

    agency = a_desk([[ask("billing")], "done"], [[call("look")], ModelError("down", passing=False)], tools=[look])
    chat = await agency.create_thread(thread_id="one")
    with refused("model_failed") as caught:
        await chat.send("go")
    assert "billing: down" in str(caught.value)
    assert await in_db(statuses, "one") == [("front", "failed"), ("billing", "failed")]
    agency.agents["billing"].__dict__["backend"] = Heard([call("look")], "found")
    assert (await chat.retry()).text == "done"
    assert ran == ["look"]  # P16
    assert results(await chat.messages()) == ["found"]
    assert await in_db(statuses, "one") == [("front", "completed"), ("billing", "completed")]
    assert [run.attempt for run in await in_db(runs_of, "one")] == [2, 2]


async def test_usage_adds_up_to_the_caller_and_stays_visible_per_agent() -> None:
    agency = a_desk([[ask("billing"), ask("travel")], "both"], ["b"], ["t"])
    chat = await agency.create_thread(thread_id="one")
    reply = await chat.send("go")
    rows = {run.agent: run.usage for run in await in_db(runs_of, "one")}
    assert reply.usage["agents"] == rows
    assert reply.usage["requests"] == 4
    assert reply.usage["input_tokens"] == sum(usage["input_tokens"] for usage in rows.values())
    assert (await chat.runs())[0]["usage"] == reply.usage


async def test_the_tokens_of_a_specialist_count_for_the_limit_of_the_caller() -> None:
    agents = [Agent("a", model=Heard([ask("b")], "done"), max_tokens=3000), Agent("b", model=Heard("x" * 20_000))]
    chat = await an_agency(entry=agents[0], specialists=agents[1:]).create_thread()
    with refused("limit_reached"):
        await chat.send("go")


async def test_p17_a_cancel_of_the_caller_stops_the_specialist_and_retry_goes_on_with_both() -> None:
    gate = Gate()
    agency = a_desk([[ask("billing")], "done"])
    agency.agents["billing"].__dict__["backend"] = gated(gate, "found")
    chat = await agency.create_thread(thread_id="one")
    turn = asyncio.create_task(chat.send("go"))
    await gate.reached.wait()
    assert await chat.cancel()
    with refused("cancelled"):
        await turn
    assert await in_db(statuses, "one") == [("front", "failed"), ("billing", "failed")]
    assert {run.error_code for run in await in_db(runs_of, "one")} == {"cancelled"}
    gate.open()
    assert (await chat.retry()).text == "done"
    assert await in_db(statuses, "one") == [("front", "completed"), ("billing", "completed")]


async def test_a_specialist_that_is_cancelled_alone_is_told_to_the_caller() -> None:
    gate = Gate()
    agency = a_desk([[ask("billing")], "without it"])
    agency.agents["billing"].__dict__["backend"] = gated(gate, "found")
    chat = await agency.create_thread(thread_id="one")
    turn = asyncio.create_task(chat.send("go"))
    await gate.reached.wait()
    child = await agency.get_thread((await in_db(threads_of, "one"))[1].key)
    assert child is not None
    assert await child.cancel()
    assert (await turn).text == "without it"
    assert results(await chat.messages()) == ["billing did not finish: Run cancelled by user"]


async def test_nobody_speaks_in_a_specialist_s_conversation_or_turns_it_back() -> None:
    agency = a_desk([[ask("billing")], "done"], ["found"])
    chat = await agency.create_thread(thread_id="one")
    await chat.send("go")
    child = await agency.get_thread((await in_db(threads_of, "one"))[1].key)
    assert child is not None
    before, [*_, first] = await in_db(events_of, "one"), await child.history()
    for attempt in (
        child.send("x"), child.submit("x"), child.retry(), child.request_retry(), child.rewind(first["id"]),
        child.delete(), child.switch("front"),
    ):  # fmt: skip
        with refused("thread_delegated"):
            await attempt
    assert await in_db(events_of, "one") == before
    assert texts(await child.messages()) == ["user: Please.", "assistant: found"]


async def test_p37_delete_takes_the_conversations_of_the_specialists_along() -> None:
    agency = a_desk([[ask("billing"), ask("travel")], "done"], ["b"], ["t"])
    chat = await agency.create_thread(thread_id="one")
    await chat.send("go")
    assert await chat.delete()
    for model in (Thread, Run, Message, ToolCall, Event, Checkpoint):
        assert await in_db(model._base_manager.count) == 0


async def test_p7_an_agency_without_a_thread_leaves_nothing() -> None:
    agency = a_desk([[ask("billing")], "done"], ["found"])
    assert (await agency.entry.run("go")).text == "done"
    assert await in_db(Thread.objects.count) == 0


async def test_a_specialist_is_told_the_state_and_whose_conversation_it_is() -> None:
    seen: list[tuple[str, str, dict[str, Any], str]] = []

    @tool
    def look(context: ToolContext) -> str:
        seen.append((context.conversation, context.agent, dict(context.state), context.locale))
        return "seen"

    agency = a_desk([[ask("billing")], "done"], [[call("look")], "found"], tools=[look])
    await (await agency.create_thread(thread_id="one")).send("go", locale="de", customer=7)
    assert seen == [("one", "billing", {"customer": 7}, "de")]
