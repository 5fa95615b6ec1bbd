"""The scripted model: a pure function of the conversation, streamed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from criogen_threads.backends.base import (
    ArgumentsDelta,
    ModelError,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
)
from criogen_threads.backends.scripted import ScriptedModel
from tests.backends.support import ask, asking, call, result, said, text_of, user


def test_text_is_streamed_in_chunks_of_code_points() -> None:
    text = "Grüße, 👩‍👩‍👧 und \U0001f600 dazu"
    deltas, answer = ask(ScriptedModel(lambda _messages, _tools: text, chunk=3), asking())
    assert answer.content == [{"text": text}]
    assert [delta.text for delta in deltas] == [text[at : at + 3] for at in range(0, len(text), 3)]


def test_respond_is_given_the_messages_and_the_tools() -> None:
    given: list[Any] = []

    def respond(messages: Any, tools: Any) -> str:
        given.extend([list(messages), list(tools)])
        return "ok"

    tool = ToolDefinition("lookup", "", {})
    ask(ScriptedModel(respond), asking(user("Hi"), tools=[tool]))
    assert given == [[user("Hi")], [tool]]


def test_respond_may_be_async() -> None:
    async def respond(_messages: Any, _tools: Any) -> str:
        await asyncio.sleep(0)
        return "later"

    assert ask(ScriptedModel(respond), asking())[1].content == [{"text": "later"}]


def test_every_kind_of_block_is_streamed_as_what_it_is() -> None:
    blocks = [{"reasoning": "well"}, {"text": "Looking"}, call("a", "find", {"n": 1}), call("b", "ping", "{")]
    deltas, answer = ask(ScriptedModel.of(blocks, chunk=4), asking())
    assert answer.content == blocks
    assert deltas == [
        ReasoningDelta("well"),
        TextDelta("Look"),
        TextDelta("ing"),
        ArgumentsDelta(0, "find", '{"n"'),
        ArgumentsDelta(0, "find", ":1}"),
        ArgumentsDelta(1, "ping", "{"),
    ]


def test_calls_without_an_id_are_numbered_along_the_conversation() -> None:
    model = ScriptedModel(lambda _messages, _tools: [{"tool_call": {"name": "a"}}, {"tool_call": {"name": "b"}}])
    first = ask(model, asking(user("Hi")))[1].content
    assert first == [call("call-1", "a", {}), call("call-2", "b", {})]
    results = [result("call-1", "a", "1"), result("call-2", "b", "2")]
    second = ask(model, asking(user("Hi"), said(*first), *results))[1].content
    assert [block["tool_call"]["id"] for block in second] == ["call-3", "call-4"]


def test_of_goes_by_the_answers_already_in_the_conversation() -> None:
    conversation = [user("Hi"), said({"text": "one"}), user("More")]
    for _ in range(2):  # asked again, in this process or another, it says the same
        assert ask(ScriptedModel.of("one", "two"), asking(*conversation))[1].content == [{"text": "two"}]


def test_of_raises_an_exception_in_its_place_and_a_model_error_after_the_end() -> None:
    down = ModelError("down", passing=True)
    with pytest.raises(ModelError) as caught:
        ask(ScriptedModel.of(down), asking())
    assert caught.value is down
    with pytest.raises(ModelError, match="all are given") as caught:
        ask(ScriptedModel.of("one"), asking(user("Hi"), said({"text": "one"}), user("More")))
    assert not caught.value.passing


def test_what_respond_raises_comes_out() -> None:
    def respond(_messages: Any, _tools: Any) -> str:
        raise LookupError("lost")

    with pytest.raises(LookupError):
        ask(ScriptedModel(respond), asking())


def test_usage_is_counted_the_same_each_time_and_grows_with_the_conversation() -> None:
    model = ScriptedModel.of("one", "two")
    first = ask(model, asking())[1].usage
    assert ask(model, asking())[1].usage == first
    assert first.input_tokens > 0
    assert first.output_tokens > 0
    longer = ask(model, asking(user("Hello"), said({"text": "one"}), user("More")))[1].usage
    assert longer.input_tokens > first.input_tokens


@pytest.mark.parametrize("answer", [None, 3, {"text": "no list"}, ["no block"]])
def test_an_answer_that_is_neither_text_nor_blocks_is_an_error(answer: Any) -> None:
    with pytest.raises(TypeError, match="text or a list of blocks"):
        ask(ScriptedModel(lambda _messages, _tools: answer), asking())


def test_a_chunk_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ScriptedModel.of("x", chunk=0)


def test_a_left_stream_gives_no_more_pieces() -> None:
    async def leave() -> list[Any]:
        heard = []
        async with aclosing(ScriptedModel.of("abcdef", chunk=1).stream(asking())) as stream:  # type: ignore[type-var]
            async for delta in stream:
                heard.append(delta)
                break
        heard.extend([delta async for delta in stream])
        return heard

    assert asyncio.run(leave()) == [TextDelta("a")]


def test_the_pieces_are_the_text() -> None:
    text = "x" * 1000
    assert text_of(ask(ScriptedModel.of(text), asking())[0]) == text
