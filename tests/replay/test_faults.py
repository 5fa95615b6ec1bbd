"""Every recorded conversation while the model's server fails at every single answer."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads import errors
from tests.backends.support import needs_replay
from tests.replay.support import IDS, said, stream_turn

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from tests.backends.support import Replay
    from tests.replay.support import Conversation

pytestmark = [
    needs_replay,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("recording_id", IDS),
]
SILENCE = 0.5  # seconds until a stalled answer counts as failed


def break_every_answer(replay: Replay, conversation: Conversation) -> int:
    """A fault at each answer, each kind in turn; one of them a stall, which takes its time."""
    answers = sum(turn.answers for turn in conversation.turns)
    kinds = cycle(["drop", "http_500", "http_429"])
    for position in range(answers):
        kind = "stall" if position == len(conversation.id) % answers else next(kinds)
        replay.fault(conversation.id, position, kind, seconds=10 * SILENCE)
    return answers


def every_answer_twice(replay: Replay, conversation: Conversation, answers: int) -> bool:
    """Each was asked for once more than it was given, in order."""
    served: list[int] = replay.state.served[conversation.id]
    return served == [position for position in range(answers) for _ in range(2)]


async def test_faults_are_retried_by_the_engine(
    replay: Replay, conversation: Conversation, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"MODEL_RETRIES": 1, "MODEL_BACKOFF": 0.01, "MODEL_TIMEOUT": SILENCE}
    answers = break_every_answer(replay, conversation)
    chat = conversation.agent(replay.url).thread(conversation.id)
    for number, turn in enumerate(conversation.turns):
        reply, events = await stream_turn(chat, conversation, number)
        assert reply.status == "completed"
        assert kept_text(events) == "".join(
            m["content"] or "" for m in turn.messages if m["role"] == "assistant"
        )
    assert await said(chat) == conversation.messages
    assert every_answer_twice(replay, conversation, answers)
    assert replay.state.mismatches == 0, replay.state.last_mismatch


def kept_text(events: list[dict[str, Any]]) -> str:
    """What a listener shows in the end: no half answer that was withdrawn."""
    void = {event["message_id"] for event in events if event["type"] == "discarded"}
    told = [event for event in events if event["type"] == "text_delta"]
    return "".join(event["text"] for event in told if event["message_id"] not in void)


async def test_p17_p18_a_failure_is_saved_and_retry_goes_on_from_the_failed_step(
    replay: Replay, conversation: Conversation, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"MODEL_RETRIES": 0, "MODEL_TIMEOUT": SILENCE}
    answers = break_every_answer(replay, conversation)
    chat = conversation.agent(replay.url).thread(conversation.id)
    for number in range(len(conversation.turns)):
        with pytest.raises(errors.ModelFailedError):
            await stream_turn(chat, conversation, number)
        reply = None
        while reply is None:
            [head] = await chat.history(1)
            assert (head["status"], head["source"]) == ("failed", "failure")
            try:
                reply = await chat.retry()
            except errors.ModelFailedError:
                continue
        assert reply.status == "completed"
        assert [run["status"] for run in await chat.runs()] == ["completed"] * (number + 1)
    assert await said(chat) == conversation.messages
    assert every_answer_twice(replay, conversation, answers)
    assert replay.state.mismatches == 0, replay.state.last_mismatch
