"""Across agents: one tree of events, one chain, one picture of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from criogen_threads import redaction
from criogen_threads.agents import Summary, tool
from criogen_threads.backends.scripted import ScriptedModel
from tests.agency.support import a_desk, ask, events_of, runs_of, threads_of
from tests.crash.checks import check_one_tree
from tests.support import an_agent, call, in_db

pytestmark = pytest.mark.django_db(transaction=True)


@tool
def look(n: int) -> str:
    return f"seen {n}"


async def a_turn() -> Any:
    billing = [[call("look", n=1), call("look", n=2)], "found"]
    agency = a_desk([[ask("billing"), ask("travel")], "both"], billing, ["gone"], tools=[look])
    chat = await agency.create_thread(thread_id="one")
    await chat.send("go")
    return agency, chat


async def billing_of(agency: Any) -> Any:
    """The conversation of the billing agent."""
    [thread] = [thread for thread in await in_db(threads_of, "one") if thread.agent == "billing"]
    return await agency.get_thread(thread.key)


async def test_b11_b14_what_an_asked_agent_does_hangs_below_the_call_that_asked_it() -> None:
    agency, chat = await a_turn()
    await in_db(lambda: check_one_tree([thread.pk for thread in threads_of("one")]))
    starts = await chat.get_events(type="tool_start")
    assert [event["details"]["tool_name"] for event in starts] == ["delegate", "delegate"]
    child = await billing_of(agency)
    [agent_start] = await child.get_events(type="agent_start")
    [asked] = [event for event in starts if event["details"]["arguments"]["agent"] == "billing"]
    assert agent_start["parent_id"] == asked["id"] == asked["tool_call_id"]
    assert {event["agent"] for event in await child.get_events()} == {"billing"}  # B13: nothing of the caller
    assert {event["agent"] for event in await chat.get_events()} == {"front"}


async def test_b14_a_second_tool_of_an_asked_agent_has_the_same_parents_as_the_first() -> None:
    agency, _ = await a_turn()
    child = await billing_of(agency)
    first, second = await child.get_events(type="tool_complete")
    chains = [await child.format_event_chain(event) for event in (first, second)]
    heads = [[line for line in chain.splitlines() if line.startswith("[")] for chain in chains]
    expected = [
        "AGENT_START - Agent: front", "TOOL_START - Agent: front", "AGENT_START - Agent: billing",
        "TOOL_START - Agent: billing", "TOOL_COMPLETE - Agent: billing",
    ]  # fmt: skip
    assert [[line.partition("] ")[2] for line in lines] for lines in heads] == [expected, expected]
    assert "  tool_name: delegate" in chains[0]


async def test_an_answer_of_an_asked_agent_stands_under_its_own_run() -> None:
    """A fault of the original: it stood under the caller's."""
    _, chat = await a_turn()
    runs = {run.agent: run.pk for run in await in_db(runs_of, "one")}
    completed = {e.agent: e.run_id for e in await in_db(events_of, "one") if e.type == "agent_complete"}
    assert completed == runs
    assert len(runs) == 3
    assert {message["run_id"] for message in await chat.messages()} == {str(runs["front"])}


async def test_a_turn_as_a_tree_with_durations_and_what_each_cost() -> None:
    agency, chat = await a_turn()
    [run] = await chat.runs()
    tree = await chat.run_tree(run["id"])
    assert (tree["agent"], tree["status"], tree["thread"]) == ("front", "completed", "one")
    assert tree["duration_ms"] >= 0
    billing, travel = tree["calls"]
    assert [billing["run"]["agent"], travel["run"]["agent"]] == ["billing", "travel"]
    assert [(each["tool_name"], each["status"], each["run"]) for each in billing["run"]["calls"]] == [
        ("look", "done", None), ("look", "done", None),
    ]  # fmt: skip
    assert all(each["duration_ms"] >= 0 for each in (billing, travel, *billing["run"]["calls"]))
    assert set(tree["usage"]["agents"]) == {"front", "billing", "travel"}
    assert billing["run"]["usage"] == tree["usage"]["agents"]["billing"]
    child = await agency.get_thread(billing["run"]["thread"])
    chain = await child.callers(billing["run"]["run_id"])
    assert [(link["agent"], link["thread"], link["call_id"]) for link in chain] == [
        ("front", "one", None), ("billing", child.id, billing["id"]),
    ]  # fmt: skip
    assert await chat.run_tree("nonsense") is None
    assert await chat.run_tree(billing["run"]["run_id"]) is None  # it is a run of another thread
    assert await chat.callers("nonsense") == []


async def test_b20_the_statistics_of_each_thread_are_its_own() -> None:
    agency, chat = await a_turn()
    assert (await chat.thread_state())["tool_usage"] == {"delegate": 2}
    child = await billing_of(agency)
    state = await child.thread_state()
    assert (state["tool_usage"], state["message_count"], state["current_run_status"]) == ({"look": 2}, 5, "completed")


async def test_what_a_summary_tells_is_shown_to_staff_only() -> None:
    chat = an_agent(model=ScriptedModel(lambda *_: "hm"), window=Summary(1, 1)).thread("one")
    for text in "abc":
        await chat.send(text)
    events = await chat.get_events()
    assert [event["type"] for event in redaction.events(events, redaction.Audience("helper"))].count("summary") == 0
    shown = redaction.events(events, redaction.Audience("helper", staff=True))
    assert [event["type"] for event in shown].count("summary") == 2
