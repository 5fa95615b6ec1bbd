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

    from criogen_threads.engine.replies import Reply
    from criogen_threads.threads import ThreadHandle
    from tests.backends.support import Replay
    from tests.replay.support import Conversation

pytestmark = [
    needs_replay,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("recording_id", IDS),
]
SILENCE = 2.0  # seconds until a stalled answer counts as failed
STALLING = IDS[::8]  # a stall takes its time, so only these conversations have one


def fault_every_other_answer(replay: Replay, conversation: Conversation, first: int) -> list[int]:
    """Faults at every other answer, each kind in turn; returns the positions at which answers are asked for."""
    answers = range(sum(turn.answers for turn in conversation.turns))
    faulty = answers[first::2]
    for position, kind in zip(faulty, cycle(["drop", "http_500", "http_429"]), strict=False):
        replay.fault(conversation.id, position, kind)
    if conversation.id in STALLING:
        replay.fault(conversation.id, faulty[-1], "stall", seconds=2 * SILENCE)
    return sorted([*answers, *faulty])


def timeout(conversation: Conversation) -> dict[str, float]:
    return {"MODEL_TIMEOUT": SILENCE} if conversation.id in STALLING else {}


async def test_faults_are_retried_by_the_engine(
    replay: Replay, conversation: Conversation, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"MODEL_RETRIES": 1, "MODEL_BACKOFF": 0.01, **timeout(conversation)}
    expected = fault_every_other_answer(replay, conversation, first=0)
    chat = conversation.agent(replay.url).thread(conversation.id)
    for number, turn in enumerate(conversation.turns):
        reply, events = await stream_turn(chat, conversation, number)
        assert reply.status == "completed"
        assert kept_text(events) == "".join(m["content"] or "" for m in turn.messages if m["role"] == "assistant")
    assert await said(chat) == conversation.messages
    assert replay.state.served[conversation.id] == expected
    assert replay.state.mismatches == 0, replay.state.last_mismatch


def kept_text(events: list[dict[str, Any]]) -> str:
    """What a listener shows in the end: no half answer that was withdrawn."""
    void = {event["message_id"] for event in events if event["type"] == "discarded"}
    told = [event for event in events if event["type"] == "text_delta"]
    return "".join(event["text"] for event in told if event["message_id"] not in void)


async def test_p17_p18_a_failure_is_saved_and_retry_goes_on_from_the_failed_step(
    replay: Replay, conversation: Conversation, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"MODEL_RETRIES": 0, **timeout(conversation)}
    expected = fault_every_other_answer(replay, conversation, first=1)
    failures = 0
    chat = conversation.agent(replay.url).thread(conversation.id)
    for number in range(len(conversation.turns)):
        reply, failed = await finished_turn(chat, conversation, number)
        failures += failed
        assert reply.status == "completed"
        assert [run["status"] for run in await chat.runs()] == ["completed"] * (number + 1)
    assert await said(chat) == conversation.messages
    assert replay.state.served[conversation.id] == expected
    assert replay.state.mismatches == 0, replay.state.last_mismatch
    assert failures == len(expected) - sum(turn.answers for turn in conversation.turns)


async def finished_turn(chat: ThreadHandle, conversation: Conversation, number: int) -> tuple[Reply, int]:
    """Run a turn, and retry it as often as it fails; how often that was."""
    failures = 0
    try:
        return (await stream_turn(chat, conversation, number))[0], failures
    except errors.ModelFailedError:
        failures += 1
    while True:
        [head] = await chat.history(1)
        assert (head["status"], head["source"]) == ("failed", "failure")
        try:
            return await chat.retry(), failures
        except errors.ModelFailedError:
            failures += 1
