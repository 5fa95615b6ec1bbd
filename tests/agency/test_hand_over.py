"""The conversation is left to another agent, which goes on in the same turn with all of it in its view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from criogen_threads.agents import Agent, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.engine import pools
from criogen_threads.models import Run, Thread
from criogen_threads.policy import Policy
from criogen_threads.visitors import AnonymousVisitor
from tests.agency.support import an_agency, ask
from tests.flush import works_here
from tests.support import Heard, call, in_db, refused, results, texts

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


def leave_to(agent: str) -> dict[str, Any]:
    return call("hand_over", agent=agent)


def a_pair(first: list[Any], second: list[Any], **options: Any) -> Any:
    agents = [Agent("a", model=Heard(*first), **options), Agent("b", model=Heard(*second))]
    return an_agency(entry=agents[0], specialists=agents[1:], delegates={}, hands_over={"a": ["b"], "b": ["a"]})


async def test_b17_b18_the_thread_goes_on_with_the_other_agent() -> None:
    agency = a_pair([[{"text": "One moment."}, leave_to("b")]], ["-", "b here", "b again"])
    chat = await agency.create_thread(thread_id="one")
    reply = await chat.send("hello")
    assert reply.text == "b here"
    assert texts(agency.agents["b"].backend.given[0]) == [
        "user: hello", "assistant: One moment. hand_over()", "tool: The conversation is handed over to b.",
    ]  # fmt: skip
    thread, run = await in_db(lambda: (Thread.objects.get(), Run.objects.get()))
    assert (thread.agent, run.agent) == ("b", "b")
    assert [message["agent"] for message in reply.messages] == ["a", "a", "a", "b"]
    assert (await agency.entry.thread("one").send("and?")).text == "b again"
    [event] = await chat.get_events(type="hand_over")
    assert event["details"] == {"from": "a", "to": "b"}
    usage = reply.usage["agents"]
    assert {name: each["requests"] for name, each in usage.items()} == {"a": 1, "b": 1}
    assert reply.usage["input_tokens"] == sum(each["input_tokens"] for each in usage.values())


async def test_b17_only_when_everything_else_of_the_answer_is_done() -> None:
    ran: list[str] = []

    @tool(approval="owner")
    def pay() -> str:
        ran.append("pay")
        return "paid"

    agency = a_pair([[leave_to("b"), call("pay"), leave_to("b")]], ["-", "b here"], tools=[pay])
    chat = await agency.create_thread(thread_id="one")
    reply = await chat.send("hello")
    assert (reply.status, [each["agent"] for each in reply.pending]) == ("suspended", ["a"])
    assert (await in_db(Thread.objects.get)).agent == "a"
    assert (await chat.approve()).text == "b here"
    said = "The conversation is handed over to b."
    assert results(await chat.messages()) == ["paid", f"It was not: {said}", said]
    assert ran == ["pay"]


async def test_p18_a_failure_behind_a_hand_over_goes_on_with_the_new_agent() -> None:
    agency = a_pair([[leave_to("b")]], ["-", ModelError("down", passing=False)])
    chat = await agency.create_thread(thread_id="one")
    with refused("model_failed"):
        await chat.send("hello")
    agency.agents["b"].__dict__["backend"] = Heard("-", "b here")
    reply = await chat.retry()
    assert reply.text == "b here"
    assert reply.usage["agents"].keys() == {"a", "b"}


async def test_p33_a_rewind_before_a_hand_over_goes_on_with_the_first_agent() -> None:
    agency = a_pair([[leave_to("b")]], ["-", "b here"])
    chat = await agency.create_thread(thread_id="one")
    await chat.send("hello")
    _, handed_over, _, said = await chat.history()
    await chat.rewind(said["id"])
    assert (await in_db(Thread.objects.get)).agent == "a"
    assert (await chat.retry()).text == "b here"
    assert [run["agent"] for run in await chat.runs()] == ["b", "b"]
    await chat.rewind(handed_over["id"])
    assert (await in_db(Thread.objects.get)).agent == "b"
    assert (await chat.retry()).text == "b here"
    assert (await chat.runs())[-1]["usage"]["requests"] == 1


async def test_b17_agents_that_leave_the_conversation_to_each_other_end_at_the_limit() -> None:
    class Leaving(Heard):
        def __init__(self, to: str) -> None:
            super().__init__(*[[leave_to(to)]] * 100)

    agency = a_pair([], [])
    agency.agents["a"].__dict__["backend"], agency.agents["b"].__dict__["backend"] = Leaving("b"), Leaving("a")
    chat = await agency.create_thread()
    with refused("limit_reached"):
        await chat.send("hello")


async def test_b17_whoever_was_asked_cannot_leave_its_caller() -> None:
    agents = [Agent("a", model=Heard([ask("b")], "done")), Agent("b", model=Heard([leave_to("a")], "found"))]
    agency = an_agency(entry=agents[0], specialists=agents[1:], hands_over={"b": ["a"]})
    chat = await agency.create_thread()
    await chat.send("hello")
    assert results(await chat.messages()) == ["found"]
    model: Any = agents[1].backend
    assert "cannot leave its conversation" in results(model.given[-1])[0]


asked_in: list[bool] = []


class Gate(Policy):
    """Asks the database, as a site's own may."""

    def use(self, user: Any, agent: str) -> bool:
        asked_in.append(works_here(pools.tool_pool))
        return super().use(user, agent) and User.objects.filter(pk=user.pk).exists()


@pytest.mark.parametrize("named", [["a"], ["a", "b"]])
async def test_b17_nobody_is_left_to_an_agent_that_they_may_not_talk_to(
    named: list[str], settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"VISITOR_AGENTS": named}
    visitor, may = AnonymousVisitor("v" * 64, "address"), "b" in named
    agency = a_pair([[leave_to("b")], "a here", "a again"], ["-", "b here", "b again"])
    chat = agency.entry.thread("one", actor=visitor)
    reply = await chat.send("hello")
    assert reply.text == ("b here" if may else "a here")
    assert ("may not talk to b. Go on" in results(await chat.messages())[0]) is not may
    assert (await in_db(Thread.objects.get)).agent == ("b" if may else "a")
    assert await in_db(lambda: Policy().send(visitor, Thread.objects.get()))
    assert (await agency.entry.thread("one", actor=visitor).send("and?")).text.endswith("again")


@pytest.mark.parametrize("waits", [False, True])
async def test_b17_a_policy_that_asks_the_database_judges_a_hand_over(waits: bool, settings: SettingsWrapper) -> None:
    """In a tool thread, where it may take its time."""
    asked_in.clear()
    settings.CRIOGEN_THREADS = {"POLICY": f"{__name__}.Gate"}

    @tool(approval="owner")
    def pay() -> str:
        return "paid"

    ann = await in_db(lambda: User.objects.create_user("ann"))
    agency = a_pair([[*([call("pay")] if waits else []), leave_to("b")]], ["-", "b here"], tools=[pay])
    chat = agency.entry.thread("one", actor=ann)
    reply = await chat.send("hello")
    if waits:
        reply = await chat.approve()
    assert reply.text == "b here"
    assert set(asked_in) == {True}


async def test_b17_the_sites_own_code_is_not_asked_about(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"POLICY": f"{__name__}.Nobody"}
    agency = a_pair([[leave_to("b")]], ["-", "b here"])
    assert (await (await agency.create_thread(thread_id="one")).send("hello")).text == "b here"


class Nobody(Policy):
    def use(self, user: Any, agent: str) -> bool:
        return False
