"""A site, or the people in it, change while a chain waits; and agents that are asked from where nobody expects it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models import F

from criogen_threads import visitors
from criogen_threads.agents import Agent, register, tool, unregister
from criogen_threads.models import Message, Run, Thread, ToolCall
from criogen_threads.policy import get_policy
from tests.agency.chained import DONE, WAITS, Chain
from tests.agency.support import a_desk, an_agency, ask, runs_of, statuses, threads_of
from tests.flush import stop_worker
from tests.support import Heard, call, in_db, refused, results

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


async def test_an_agency_that_is_gone_while_its_chain_waits_stays_readable_and_goes_on_when_it_is_back() -> None:
    chain = Chain()
    chat = await chain.begin()
    unregister(chain.agency.name)
    deep = (await in_db(threads_of, "one"))[2]
    assert [message["role"] for message in await chat.messages()] == ["user", "assistant"]
    call_id = (await in_db(ToolCall.objects.awaiting_approval().get)).pk
    with refused("agent_not_found"):
        await chat.decide({call_id: {"approve": True, "arguments": {"amount": 2}}})
    assert await in_db(statuses, "one") == WAITS  # nothing of it was kept
    register(chain.agency)
    assert (await chat.approve()).text == "top is done"
    assert chain.ran == ["look", "pay 5"]
    assert (await in_db(Thread.objects.get, pk=deep.pk)).status == "idle"


async def test_whoever_is_not_active_any_more_answers_nothing_and_what_they_asked_for_goes_on() -> None:
    owner = await in_db(get_user_model().objects.create_user, "ann")
    chain = Chain()
    chat = await chain.begin(actor=owner)
    await in_db(get_user_model().objects.filter(pk=owner.pk).update, is_active=False)
    chat.actor = await in_db(get_user_model().objects.get, pk=owner.pk)
    with refused("thread_not_found"):
        await chat.approve()
    assert await in_db(statuses, "one") == WAITS
    assert (await chain.agency.entry.thread("one").approve()).status == "completed"
    assert await in_db(statuses, "one") == DONE


async def test_an_owner_who_is_deleted_leaves_a_chain_that_can_be_answered_and_deleted() -> None:
    owner = await in_db(get_user_model().objects.create_user, "ann")
    chain = Chain()
    chat = await chain.begin(actor=owner)
    await in_db(owner.delete)
    assert {thread.owner_id for thread in await in_db(threads_of, "one")} == {None}
    site = chain.agency.entry.thread(chat.id)
    assert (await site.approve()).status == "completed"
    assert await site.delete()
    assert await in_db(Thread.objects.count) == 0


async def test_a_tool_of_an_asked_agent_that_talks_to_the_agency_does_not_hang(settings: SettingsWrapper) -> None:
    """A conversation of its own is answered; the one that waits for the tool is busy, and the tool is told so."""
    settings.CRIOGEN_THREADS = {**settings.CRIOGEN_THREADS, "BUSY_TIMEOUT": 1}
    said: list[str] = []

    @tool
    async def again(where: str) -> str:
        reply = await agency.get_completion("and you?", thread_id=where or None, recipient_agent="travel")
        said.append(reply.text)
        return reply.text

    billing = [[call("again", where=""), call("again", where="one")], "done"]
    agency = a_desk([[ask("billing")], "all done"], billing, ["a train"], tools=[again])
    chat = await agency.create_thread(thread_id="one")
    assert (await chat.send("go")).text == "all done"
    assert said == ["a train"]
    tried = await in_db(lambda: list(ToolCall.objects.filter(name="again").order_by("index")))
    assert [each.status for each in tried] == ["done", "error"]
    assert await in_db(statuses, "one") == [("front", "completed"), ("billing", "completed")]


async def test_f12_a_caller_whose_thread_was_taken_writes_nothing_and_nothing_is_done_again() -> None:
    ran: list[str] = []

    @tool
    async def look() -> str:
        ran.append("look")
        await in_db(Thread.objects.filter(key="one").update, fence=F("fence") + 1)  # as whoever takes it does
        return "seen"

    agency = a_desk([[ask("billing")], "all done"], [[call("look")], "found"], tools=[look])
    chat = await agency.create_thread(thread_id="one")
    with refused("lease_lost"):
        await chat.send("go")
    assert [message["role"] for message in await chat.messages()] == ["user", "assistant"]
    assert await in_db(statuses, "one") == [("front", "in_progress"), ("billing", "completed")]
    await in_db(stop_worker)
    assert (await chat.retry()).text == "all done"
    assert results(await chat.messages()) == ["found"]
    assert ran == ["look"]
    assert await in_db(statuses, "one") == [("front", "completed"), ("billing", "completed")]


async def test_a_visitor_asks_agents_that_visitors_do_not_talk_to(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {**settings.CRIOGEN_THREADS, "VISITOR_AGENTS": ["top"]}
    somebody, other = visitors.AnonymousVisitor("a" * 64, "10.0.0.1"), visitors.AnonymousVisitor("b" * 64, "10.0.0.1")
    chain = Chain()
    chat = await chain.begin(actor=somebody)
    threads, policy = await in_db(threads_of, "one"), get_policy()
    assert {thread.visitor for thread in threads} == {somebody.visitor}
    assert [policy.see(somebody, thread) for thread in threads] == [True] * 3
    assert [policy.see(other, thread) for thread in threads] == [False] * 3
    for thread in threads[1:]:
        assert not policy.send(somebody, thread)
    chat.actor = other
    with refused("thread_not_found"):
        await chat.approve()
    chat.actor = somebody
    assert (await chat.approve()).text == "top is done"
    assert {run.visitor for run in await in_db(runs_of, "one")} == {somebody.visitor}


async def test_p7_an_approval_of_an_agent_that_is_asked_without_a_thread_fails_the_run_and_leaves_nothing() -> None:
    chain = Chain()
    with refused("approval_required"):
        await chain.agency.entry.run("go")
    assert chain.ran == ["look"]
    for model in (Thread, Run, Message, ToolCall):
        assert await in_db(model._base_manager.count) == 0


async def test_b21_no_text_of_one_conversation_reaches_an_asked_agent_of_another() -> None:
    """A fault of the original: the prompt of a shared agent had another thread's text in it."""
    agents = [
        Agent("front", model=Heard([ask("b", "the secret of A")], "1", [ask("b", "again")], "2")),
        Agent("b", model=Heard("heard A", "heard more")),
    ]
    agency = an_agency(entry=agents[0], specialists=agents[1:])
    first, second = await agency.create_thread(thread_id="A"), await agency.create_thread(thread_id="B")
    await first.send("I am A")
    await second.send("I am B")
    await second.send("more")
    shared: Any = agents[1].backend
    assert len(shared.given) == 3
    assert results(await second.messages()) == ["heard A", "heard more"]
    for asked in shared.given:
        assert str(asked).count("the secret of A") == 1  # what this conversation said itself
        assert "I am A" not in str(asked)
    assert await in_db(Thread.objects.filter(agent="b").count) == 2
