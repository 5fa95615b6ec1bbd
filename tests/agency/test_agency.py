"""An agency: its agents by name, what all of them are told, and its conversations."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import Agency, Agent, get_agency, get_agent, register, tool
from criogen_threads.agents.registry import conflicts, unregister
from criogen_threads.errors import AgentNotFoundError
from criogen_threads.models import Thread
from criogen_threads.policy import Policy
from criogen_threads.testing import Answers
from tests.agency.support import a_desk, an_agency, ask
from tests.support import Heard, an_agent, in_db, refused, texts

pytestmark = pytest.mark.django_db(transaction=True)


def plain(*names: str, **options: Any) -> list[Agent]:
    return [Agent(name, model=Heard("ok"), **options) for name in names]


async def test_b16_agents_by_name_and_an_entry_that_may_ask_every_specialist() -> None:
    agency = a_desk(["hello"])
    assert list(agency.agents) == ["front", "billing", "travel"]
    assert get_agency("shop") is agency
    assert get_agent("billing") is agency.agents["billing"]
    [definition] = agency.entry.definitions()
    assert definition.name == "delegate"
    assert definition.parameters["properties"]["agent"]["enum"] == ["billing", "travel"]
    assert "billing (knows invoices)" in definition.description
    assert agency.agents["billing"].definitions() == []


async def test_b16_shared_instructions_reach_every_prompt() -> None:
    desk, billing = Answers([ask("billing")], "done"), Answers("found")
    agents = [
        Agent("front", model=desk, instructions="You are the front."),
        Agent("billing", model=billing, instructions=lambda context: f"You are {context.agent}."),
    ]
    agency = an_agency(
        entry=agents[0], specialists=agents[1:], instructions=lambda context: f"Be brief in {context.conversation}."
    )
    await (await agency.create_thread(thread_id="one")).send("go")
    assert [request.instructions for request in desk.requests] == ["Be brief in one.\n\nYou are the front."] * 2
    assert [request.instructions for request in billing.requests] == ["Be brief in one.\n\nYou are billing."]


async def test_b16_create_thread_and_get_thread() -> None:
    agency = a_desk(["hello"], ["invoices"])
    chat = await agency.create_thread("billing")
    thread = await in_db(Thread.objects.get)
    assert (thread.key, thread.agent, thread.status) == (chat.id, "billing", "idle")
    assert await chat.messages() == []
    found = await agency.get_thread(chat.id)
    assert found is not None
    assert (await found.send("hi")).text == "invoices"
    assert await agency.get_thread("nowhere") is None
    assert await agency.get_thread("a/b") is None
    await an_agent("x", name="other").thread("foreign").send("hi")
    assert await agency.get_thread("foreign") is None
    with refused("agent_not_found"):
        await agency.create_thread("nobody")


async def test_b16_the_conversations_of_others_are_not_there() -> None:
    ann, bob = await in_db(lambda: [get_user_model().objects.create_user(name) for name in ("ann", "bob")])
    agency = a_desk(["hello"])
    chat = await agency.create_thread(thread_id="one", actor=ann)
    assert await agency.get_thread("one", actor=bob) is None
    assert await agency.get_thread("one", actor=ann) is not None
    with refused("thread_not_found"):
        await agency.create_thread(thread_id="one", actor=bob)
    with refused("thread_not_found"):
        await agency.get_completion("hi", thread_id="one", actor=bob)
    assert await chat.messages() == []


async def test_b16_get_completion() -> None:
    agency = a_desk(["hello", "again"], ["invoices"])
    reply = await agency.get_completion("hi")
    assert reply.text == "hello"
    thread = await in_db(Thread.objects.get)
    reply = await agency.get_completion("and", thread_id=thread.key, customer=7)
    assert reply.text == "again"
    assert (await in_db(Thread.objects.get)).state == {"customer": 7}
    await an_agent("x", name="other").thread("foreign").send("hi")
    with refused("thread_not_found"):
        await agency.get_completion("hi", thread_id="foreign")
    with refused("agent_not_found"):
        await agency.get_completion("hi", recipient_agent="other")


def test_b16_everything_without_asyncio() -> None:
    agency = a_desk(["hello"], ["hm", "invoices"])
    chat = agency.create_thread_sync(thread_id="one")
    assert chat.send_sync("hi").text == "hello"
    assert agency.get_completion_sync("hi", thread_id="one", recipient_agent="billing").text == "invoices"
    chat.switch_sync("billing")
    found = agency.get_thread_sync("one")
    assert found is not None
    assert found.agent.name == "billing"
    assert agency.get_thread_sync("two") is None


# Switching -----------------------------------------------------------------------------------------------------------


async def test_b18_another_agent_for_one_message_and_from_now_on() -> None:
    agency = a_desk(["1", "2", "3", "4"], ["b1", "b2", "b3"], ["t1", "t2", "t3", "t4"])
    chat = await agency.create_thread(thread_id="one")
    assert (await chat.send("a")).text == "1"
    assert (await chat.send("b", agent="billing")).text == "b2"
    assert (await chat.send("c")).text == "3"
    await chat.switch(agency.agents["travel"])
    assert (await chat.send("d")).text == "t4"
    handle = agency.agents["front"].thread("one")  # P2: who holds it does not matter
    assert [run["agent"] for run in await handle.runs()] == ["front", "billing", "front", "travel"]
    assert [m["agent"] for m in await handle.messages()] == [
        "front", "front", "billing", "billing", "front", "front", "travel", "travel",
    ]  # fmt: skip
    model: Any = agency.agents["travel"].backend
    assert texts(model.given[-1])[:4] == ["user: a", "assistant: 1", "user: b", "assistant: b2"]
    [event] = await chat.get_events(type="agent_switch")
    assert event["details"] == {"from": "front", "to": "travel"}


async def test_b18_submit_and_stream_take_the_agent_too() -> None:
    agency = a_desk(["1", "2"], ["b1", "b2", "b3"])
    chat = await agency.create_thread(thread_id="one")
    events = [event async for event in chat.stream("a", agent="billing")]
    assert events[-1]["reply"].text == "b1"
    run = await chat.submit("b", agent="billing")
    assert (await chat.run(run) or {})["agent"] == "billing"


async def test_b18_a_rewind_goes_back_to_the_agent_of_then() -> None:
    agency = a_desk(["1", "2"], ["b1", "b2"])
    chat = await agency.create_thread(thread_id="one")
    await chat.send("a")
    before = (await chat.history())[0]["id"]
    await chat.switch("billing")
    assert (await chat.send("b")).text == "b2"
    await chat.rewind(before)
    assert (await chat.send("b")).text == "2"


async def test_b18_only_agents_that_one_may_talk_to(settings: Any) -> None:
    settings.CRIOGEN_THREADS = {**settings.CRIOGEN_THREADS, "POLICY": "tests.agency.test_agency.OnlyTheDesk"}
    ann = await in_db(get_user_model().objects.create_user, "ann")
    agency = a_desk(["1", "2"], ["b1", "b2"])
    chat = agency.entry.thread("one", actor=ann)
    await chat.send("a")
    for attempt in (chat.send("b", agent="billing"), chat.submit("b", agent="billing"), chat.switch("billing")):
        with refused("permission_denied"):
            await attempt
    with refused("agent_not_found"):
        await chat.switch("nobody")
    assert len(await chat.runs()) == 1


async def test_b18_a_thread_whose_agent_is_gone_goes_on_with_that_of_the_handle() -> None:
    await an_agent("1", name="old").thread("one").send("a")
    unregister("old")
    assert (await an_agent("x", "2", name="new").thread("one").send("b")).text == "2"


class OnlyTheDesk(Policy):
    def use(self, user: Any, agent: str) -> bool:
        return agent == "front"


# What cannot be ------------------------------------------------------------------------------------------------------


@tool
def delegate() -> str:
    return "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "a b"}, "a name has 1 to 100"),
        ({"specialists": plain("entry")}, "two of its agents have the name 'entry'"),
        ({"specialists": ["billing"]}, "'billing' is not an Agent"),
        ({"instructions": 7}, "instructions must be text"),
        ({"delegates": {"entry": ["nobody"]}}, "names 'nobody', which is not one of its agents"),
        ({"delegates": {"nobody": ["entry"]}}, "names 'nobody', which is not one of its agents"),
        ({"delegates": {"entry": ["entry"]}}, "lets 'entry' turn to itself"),
        ({"hands_over": {"entry": "other"}}, "not a list of names"),
        ({"max_depth": 0}, "max_depth must be a whole number"),
        ({"visible": "nobody"}, "visible must be one of"),
        ({"entry": plain("entry", tools=[delegate])[0]}, "two of its tools have the name 'delegate'"),
    ],
)
def test_b16_an_agency_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    parts: dict[str, Any] = {"name": "shop", "entry": plain("entry")[0], "specialists": plain("other"), **options}
    with pytest.raises(ImproperlyConfigured, match=said):
        Agency(**parts)
    for agent in (parts["entry"], *parts["specialists"]):
        assert getattr(agent, "agency", None) is None


def test_b16_an_agent_belongs_to_one_agency() -> None:
    entry = plain("entry")
    an_agency(entry=entry[0])
    with pytest.raises(ImproperlyConfigured, match="belongs to 'shop' already"):
        Agency("other", entry=entry[0])


def test_b16_what_is_registered() -> None:
    agency = an_agency(entry=plain("entry")[0])
    assert register(agency) is agency
    with pytest.raises(ImproperlyConfigured, match="an Agent or an Agency"):
        register("agency")  # type: ignore[type-var]
    with pytest.raises(AgentNotFoundError):
        get_agency("nowhere")
    other = Agency("shop", entry=plain("x")[0])
    exec("register(agency)", {"__name__": "elsewhere", "register": register, "agency": other})
    [conflict] = conflicts()
    assert str(conflict) == "The agency 'shop' is registered by tests.agency.support and by elsewhere."
    unregister("x")
    unregister("shop")
    assert not conflicts()
