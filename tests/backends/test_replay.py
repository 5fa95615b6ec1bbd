"""A real client of the OpenAI protocol against the recorded conversations."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.backends.base import ArgumentsDelta, ModelAnswer, ModelError
from tests.backends.support import Replay, asking, chat_backend, collect, needs_replay, stored, text_of, user

if TYPE_CHECKING:
    from collections.abc import Iterator

    from criogen_threads.backends.base import ModelBackend

pytestmark = needs_replay


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with Replay() as server:
        yield server


@pytest.fixture(autouse=True)
def _fresh(replay: Replay) -> None:
    replay.state.reset()


async def every_turn(replay: Replay, recording: Any) -> int:
    backend = chat_backend(replay.url, recording.id)
    messages = [stored(message) for message in recording.messages]
    turns = 0
    for position, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        request = asking(*messages[:position], instructions="You are an airline agent.")
        deltas, answer = await collect(backend, request)
        assert answer.content == message["content"]
        assert answer.usage.input_tokens > 0
        assert answer.usage.output_tokens > 0
        check_deltas(deltas, answer)
        turns += 1
    return turns


def check_deltas(deltas: list[Any], answer: ModelAnswer) -> None:
    """The pieces are the whole, and came as pieces."""
    text = "".join(block["text"] for block in answer.content if "text" in block)
    assert text_of(deltas) == text
    assert len(deltas) > 1 or len(text) <= 12
    calls = [block["tool_call"]["name"] for block in answer.content if "tool_call" in block]
    named = {delta.index: delta.name for delta in deltas if isinstance(delta, ArgumentsDelta)}
    assert [named[index] for index in sorted(named)] == calls


def test_every_turn_of_every_recording_comes_back_as_recorded(replay: Replay) -> None:
    async def all_of_them() -> int:
        return sum([await every_turn(replay, recording) for recording in replay.recordings()])

    turns = asyncio.run(all_of_them())
    assert turns > 400
    assert replay.state.requests == turns
    assert replay.state.mismatches == 0, replay.state.last_mismatch


def test_call_ids_that_repeat_within_a_recording_are_sent_as_they_are(replay: Replay) -> None:
    def ids(recording: Any) -> list[str]:
        return [each["id"] for each in recording.tool_calls]

    repeating = [each for each in replay.recordings() if len(set(ids(each))) < len(ids(each))]
    assert repeating
    for recording in repeating:
        asyncio.run(every_turn(replay, recording))
    assert replay.state.mismatches == 0, replay.state.last_mismatch


@pytest.mark.parametrize("kind", ["http_500", "http_429", "drop"])
def test_an_induced_fault_is_passing_and_the_same_request_then_succeeds(replay: Replay, kind: str) -> None:
    recording = replay.recordings()[0]
    replay.fault(recording.id, 0, kind)
    request = asking(stored(recording.messages[0]))

    async def twice() -> ModelAnswer:
        backend = chat_backend(replay.url, recording.id)
        with pytest.raises(ModelError) as caught:
            await collect(backend, request)
        assert caught.value.passing
        return (await collect(backend, request))[1]

    assert asyncio.run(twice()).content == stored(recording.messages[1])["content"]
    assert replay.state.served[recording.id] == [0, 0]  # the client itself has retried nothing


def test_a_stall_ends_with_the_callers_timeout(replay: Replay) -> None:
    recording = replay.recordings()[0]
    replay.fault(recording.id, 0, "stall", seconds=3)
    heard: list[Any] = []

    async def listen(backend: ModelBackend) -> None:
        async for delta in backend.stream(asking(stored(recording.messages[0]))):
            heard.append(delta)  # noqa: PERF401  what was heard before the timeout counts

    async def impatient() -> float:
        backend = chat_backend(replay.url, recording.id)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(listen(backend), 0.5)
        return loop.time() - begun

    assert asyncio.run(impatient()) < 2  # seconds, of the three that the stall lasts
    assert heard
    assert not any(isinstance(each, ModelAnswer) for each in heard)


def test_a_stall_is_passing_where_the_client_has_a_timeout(replay: Replay) -> None:
    recording = replay.recordings()[0]
    replay.fault(recording.id, 0, "stall", seconds=3)
    request = asking(stored(recording.messages[0]), settings={"timeout": 0.3})
    with pytest.raises(ModelError) as caught:
        asyncio.run(collect(chat_backend(replay.url, recording.id), request))
    assert caught.value.passing


def test_a_request_that_differs_from_the_recording_is_refused_for_good(replay: Replay) -> None:
    recording = replay.recordings()[0]
    with pytest.raises(ModelError) as caught:
        asyncio.run(collect(chat_backend(replay.url, recording.id), asking(user("Something else"))))
    assert not caught.value.passing
    assert replay.state.mismatches == 1
    assert "Something else" not in str(caught.value)
