"""Every recorded conversation, turn by turn through the whole engine."""

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


async def test_p04_p05_p06_p25_p30_every_recording_is_stored_as_it_was_recorded(
    replay: Replay, conversation: Conversation
) -> None:
    chat = conversation.agent(replay.url).thread(conversation.id)
    for number, turn in enumerate(conversation.turns):
        reply, events = await stream_turn(chat, conversation, number)
        assert reply.status == "completed"
        assert [m["content"] for m in reply.messages] == [
            m["content"] for m in conversation.until(number + 1)[-len(turn.messages) :]
        ]
        told = "".join(event["text"] for event in events if event["type"] == "text_delta")
        assert told == "".join(m["content"] or "" for m in turn.messages if m["role"] == "assistant")
    assert await said(chat) == conversation.messages
    versions = [checkpoint["version"] for checkpoint in await chat.history(1000)]
    assert versions == list(range(len(conversation.messages), 0, -1))  # one checkpoint for each message
    answers = sum(turn.answers for turn in conversation.turns)
    assert replay.state.served[conversation.id] == list(range(answers))  # each asked for once, in order
    assert replay.state.mismatches == 0, replay.state.last_mismatch
