"""F57: the cards of approvals are the server's, in every conversation in which they wait, for everybody who watches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import Agent, tool
from criogen_threads.engine.journal import families
from criogen_threads.models import Event, Thread, ToolCall
from criogen_threads.streaming.feed import Feed
from criogen_threads.streaming.showing import Viewer
from criogen_threads.threads import ThreadHandle
from tests.agency.support import a_desk, an_agency, ask
from tests.api.support import Api, a_user
from tests.support import Heard, an_agent, call, in_db, refused

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from criogen_threads.agents import Agency

pytestmark = pytest.mark.django_db(transaction=True)


@tool(approval="owner")
def pay(amount: int) -> str:
    return "paid"


PAYS = [[call("pay", amount=1), call("pay", amount=2)], "paid"]


@pytest.fixture
def owner(transactional_db: None) -> User:
    return a_user("owner")


class Tab:
    """Somebody who watches the conversation, and reads when it suits them."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed

    @classmethod
    async def open(cls, user: User) -> Tab:
        thread = await in_db(Thread.objects.get, key="one")
        tab = cls(Feed("one", await in_db(Viewer.of, user, thread)))
        await tab.feed.start()
        return tab

    async def shows(self, *amounts: int) -> None:
        """Read until these approvals are the ones that wait."""
        while True:
            self.feed.changed.clear()
            frames = await self.feed.read()
            shown = [frame.extra["pending"] for frame in frames if "pending" in frame.extra]
            if shown and [each["arguments"]["amount"] for each in shown[-1]] == list(amounts):
                return
            if not frames:
                await asyncio.wait_for(self.feed.changed.wait(), 20)


async def begun(agency: Agency, user: User) -> Any:
    chat = await agency.create_thread(thread_id="one", actor=user)
    await chat.send("go")
    return chat


async def answer(chat: Any, amount: int) -> None:
    for each in await in_db(lambda: list(ToolCall.objects.awaiting_approval())):
        if each.arguments["amount"] == amount:
            await chat.answer({str(each.pk): True})


def noted() -> list[str]:
    return list(Event.objects.filter(type="asked_decided").order_by("pk").values_list("agent", flat=True))


@pytest.mark.parametrize("visible", ["all", "name", "staff"])
async def test_f57_an_answer_to_one_call_of_an_asked_agent_takes_its_card_away(owner: User, visible: Any) -> None:
    chat = await begun(a_desk([[ask("billing")], "done"], PAYS, tools=[pay], visible=visible), owner)
    tab = await Tab.open(owner)
    try:
        await tab.shows(1, 2)
        await answer(chat, 1)
        await tab.shows(2)
    finally:
        tab.feed.leave()
    events = await in_db(lambda: Api(owner).get("threads/one/events/").content.decode())
    assert ("asked_decided" in events) == (visible != "staff")
    assert ("billing" in events) == (visible == "all")
    await answer(chat, 2)
    assert await in_db(noted) == ["front"]  # the last answer has it go on, which says enough


async def test_f57_an_answer_far_below_is_heard_at_the_top(owner: User) -> None:
    agents = [
        Agent("top", model=Heard([ask("middle")], "done")),
        Agent("middle", model=Heard([ask("deep")], "done")),
        Agent("deep", model=Heard(*PAYS), tools=[pay]),
    ]
    reach = {"top": ["middle"], "middle": ["deep"]}
    chat = await begun(an_agency(entry=agents[0], specialists=agents[1:], delegates=reach), owner)
    tab = await Tab.open(owner)
    try:
        await tab.shows(1, 2)
        await answer(chat, 2)
        await tab.shows(1)
    finally:
        tab.feed.leave()
    assert sorted(await in_db(noted)) == ["middle", "top"]


async def test_f57_an_approval_of_an_asked_agent_that_expires_takes_its_card_away(owner: User) -> None:
    await begun(a_desk([[ask("billing")], "done"], PAYS, tools=[pay]), owner)
    tab = await Tab.open(owner)
    try:
        await tab.shows(1, 2)
        first = await in_db(lambda: ToolCall.objects.awaiting_approval().order_by("index").first())
        assert first is not None
        await in_db(lambda: ToolCall.objects.filter(pk=first.pk).update(expires_at="2000-01-01T00:00Z"))
        await in_db(families.awake, "one")
        await tab.shows(2)
    finally:
        tab.feed.leave()


async def test_f57_who_did_not_read_meanwhile_is_shown_what_waits_now(owner: User) -> None:
    agent = an_agent([call("pay", amount=1)], [call("pay", amount=2)], "done", tools=[pay])
    chat = agent.thread("one", actor=owner)
    await chat.send("go")
    tab = await Tab.open(owner)
    try:
        await tab.shows(1)
        assert (await chat.approve()).status == "suspended"
        await tab.shows(2)
    finally:
        tab.feed.leave()


async def test_p23_nobody_answers_above_the_conversation_that_they_name(owner: User) -> None:
    """That above is locked with it, to be told of the answer; its own calls are not to be had there."""
    entry = Agent("front", model=Heard([ask("billing"), call("pay", amount=3)], "done"), tools=[pay])
    await begun(an_agency(entry=entry, specialists=[Agent("billing", model=Heard(*PAYS), tools=[pay])]), owner)
    below = await in_db(lambda: Thread.objects.get(parent__isnull=False))
    chat = ThreadHandle(below.key, agent=entry, actor=owner)
    with refused("resume_invalid"):
        await chat.answer({str(each.pk): True for each in await in_db(lambda: list(threes()))})
    assert await in_db(lambda: ToolCall.objects.awaiting_approval().count()) == 3


def threes() -> list[ToolCall]:
    return [each for each in ToolCall.objects.awaiting_approval() if each.arguments["amount"] == 3]
