"""AG-UI: a client names the agent that it began with, whoever of its agency the conversation is with by now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.test import AsyncClient

from criogen_threads.agents import Agent, tool
from criogen_threads.models import Thread
from criogen_threads.policy import get_policy
from tests.agency.support import an_agency
from tests.api.support import a_user
from tests.support import Heard, an_agent, call, in_db

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from criogen_threads.agents import Agency

pytestmark = pytest.mark.django_db(transaction=True)


@tool(approval="owner")
def pay() -> str:
    return "paid"


@pytest.fixture
def owner(transactional_db: None) -> User:
    return a_user("owner")


def a_pair(first: list[Any], second: list[Any]) -> Agency:
    agents = [Agent("a", model=Heard(*first)), Agent("b", model=Heard(*second), tools=[pay])]
    return an_agency(entry=agents[0], specialists=agents[1:], delegates={}, hands_over={"a": ["b"]})


class Caller:
    """An AG-UI client that knows one address for as long as it lives."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.client: Any = AsyncClient()

    async def __call__(self, user: User, text: str = "", **values: Any) -> tuple[int, Any]:
        """The status, and the events or the problem's code."""
        await self.client.aforce_login(user)
        said = [{"id": str(uuid4()), "role": "user", "content": text}] if text else []
        given = {"threadId": "one", "runId": str(uuid4()), "messages": said, "protocolVersion": "1.0", **values}
        response = await self.client.post(
            f"/api/agui/{self.agent}/", json.dumps(given), content_type="application/json"
        )
        if response.status_code != 200:
            return response.status_code, response.json()["code"]
        lines = b"".join([piece async for piece in response.streaming_content]).decode().splitlines()
        return 200, [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def spoken(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


async def test_b18_p23_a_client_goes_on_where_the_conversation_was_handed_over(owner: User) -> None:
    agency = a_pair([[call("hand_over", agent="b")]], ["-", [call("pay")], "b here", "b again"])
    await agency.create_thread(thread_id="one", actor=owner)
    ask = Caller("a")
    _, events = await ask(owner, "go")
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert (await in_db(Thread.objects.get)).agent == "b"
    answer = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approve": True}}]
    status, events = await ask(owner, resume=answer)  # asked in the very run that handed over
    assert (status, events[-1]["outcome"], spoken(events)) == (200, {"type": "success"}, "b here")
    status, events = await ask(owner, "and?")
    assert (status, events[-1]["outcome"]) == (200, {"type": "success"})
    assert spoken(events).endswith("b again")


async def test_b18_a_client_goes_on_where_the_agent_was_changed_within_the_agency(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    agency = a_pair(["by a"], ["by b", "by b again"])
    an_agent("by another", name="other")
    chat = await agency.create_thread(thread_id="one", actor=owner)
    await chat.switch("b")
    status, events = await Caller("a")(owner, "go")
    assert (status, spoken(events)) == (200, "by b")
    assert await Caller("other")(owner, "go") == (404, "agent_not_found")
    assert await Caller("nobody")(owner, "go") == (404, "agent_not_found")
    monkeypatch.setattr(type(get_policy()), "use", lambda _self, _user, agent: agent == "b")
    assert await Caller("a")(owner, "go") == (404, "agent_not_found")  # nobody learns so who belongs together


async def test_b18_a_conversation_that_left_its_agency_is_at_the_address_of_its_agent(owner: User) -> None:
    agency = a_pair(["by a"], [])
    an_agent("by another", name="other")
    chat = await agency.create_thread(thread_id="one", actor=owner)
    await chat.switch("other")
    assert await Caller("a")(owner, "go") == (404, "agent_not_found")
    status, events = await Caller("other")(owner, "go")
    assert (status, spoken(events)) == (200, "by another")
