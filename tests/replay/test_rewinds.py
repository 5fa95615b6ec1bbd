"""Every recorded conversation, gone back to each earlier turn and on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.backends.support import needs_replay
from tests.replay.support import IDS, said, stream_turn

if TYPE_CHECKING:
    from tests.backends.support import Replay
    from tests.replay.support import Conversation

pytestmark = [
    needs_replay,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("recording_id", IDS),
]
LONGEST = 7  # turns of the conversations that are run to their end once more


async def test_p33_p34_p35_after_a_rewind_the_conversation_goes_on_from_there(
    replay: Replay, conversation: Conversation
) -> None:
    """From the last turn back to the first: the turn that follows each; the shorter ones then to their end."""
    chat = conversation.agent(replay.url).thread(conversation.id)
    turns = len(conversation.turns)
    for number in range(turns):
        await stream_turn(chat, conversation, number)
    ends = [each for each in await chat.history(1000) if each["status"] == "completed"][::-1]
    assert len(ends) == turns
    for earlier in range(turns - 1, 0, -1):
        head = await chat.rewind(ends[earlier - 1]["id"])
        assert head["parent_id"] == ends[earlier - 1]["id"]
        assert await said(chat) == conversation.until(earlier)
        await stream_turn(chat, conversation, earlier)
        assert await said(chat) == conversation.until(earlier + 1)
    for number in range(2, turns if turns <= LONGEST else 0):
        await stream_turn(chat, conversation, number)
        assert await said(chat) == conversation.until(number + 1)
    assert replay.state.mismatches == 0, replay.state.last_mismatch
    [head] = await chat.history(1)
    assert head["version"] > len(conversation.messages) + turns - 2  # nothing was overwritten
