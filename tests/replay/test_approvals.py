"""Every recorded conversation with approvals on the tools that change a booking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from criogen_threads import errors
from tests.backends.support import needs_replay
from tests.replay.support import IDS, said, stream_turn

if TYPE_CHECKING:
    from criogen_threads.agents import Agent, ToolContext
    from tests.backends.support import Replay
    from tests.replay.support import Conversation

pytestmark = [
    needs_replay,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("recording_id", IDS),
]


@pytest.fixture
def people() -> dict[str, Any]:
    return {
        "owner": User.objects.create(username="owner"),
        "staff": User.objects.create(username="staff", is_staff=True, is_superuser=True),
    }


async def test_p21_p22_p23_each_consequential_call_waits_for_its_person_and_then_runs(
    replay: Replay, conversation: Conversation, people: dict[str, Any]
) -> None:
    agent = conversation.agent(replay.url, approval=owner_or_staff)
    chat = agent.thread(conversation.id, actor=people["owner"])
    approved = 0
    for number in range(len(conversation.turns)):
        reply, _ = await stream_turn(chat, conversation, number)
        while reply.status == "suspended":
            with pytest.raises(errors.ThreadSuspendedError):
                await chat.send("And now?")
            reply = await answer(agent, conversation, reply.pending, people)
            approved += 1
        assert reply.status == "completed"
    assert await said(chat) == conversation.messages
    assert approved == conversation.consequential
    assert replay.state.mismatches == 0, replay.state.last_mismatch


def owner_or_staff(context: ToolContext, **arguments: Any) -> str:
    """Turn and turn about."""
    return ("owner", "staff")[context.state["turn"] % 2]


async def answer(
    agent: Agent, conversation: Conversation, pending: list[dict[str, Any]], people: dict[str, Any]
) -> Any:
    """Approve the one call that waits, as the person who may; the other may not."""
    [call] = pending
    may, may_not = people[call["approver"]], people["owner" if call["approver"] == "staff" else "staff"]
    with pytest.raises(errors.PermissionDeniedError):
        await agent.thread(conversation.id, actor=may_not).decide({call["id"]: True})
    return await agent.thread(conversation.id, actor=may).decide({call["id"]: True})
