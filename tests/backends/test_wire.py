"""The OpenAI client against a server that says what no recording does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.backends.base import (
    ArgumentsDelta,
    ModelError,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
)
from tests.backends.support import (
    Wire,
    ask,
    asking,
    call,
    chat_backend,
    plain,
    result,
    said,
    serving,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def failing(answer: Callable[[Wire], None], **options: Any) -> ModelError:
    with serving(answer) as server:
        with pytest.raises(ModelError) as caught:
            ask(chat_backend(server.url, **options), asking())
        assert len(server.bodies) == 1  # the client itself has retried nothing
    return caught.value


# What is sent -----------------------------------------------------------------------------------------------


def test_the_request_says_what_the_conversation_says() -> None:
    tool = ToolDefinition("find", "Finds it", {"type": "object", "properties": {"n": {"type": "integer"}}})
    request = asking(
        user("Hi"),
        said({"text": "Looking"}, call("c1", "find", {"n": 1}), call("c1", "find", {"n": 2})),
        result("c1", "find", ' {"a":  1}'),
        result("c1", "find", {"a": 2}),
        instructions="Be kind",
        tools=[tool],
        settings={"temperature": 0.5, "parallel_tool_calls": True},
    )
    with serving(plain) as server:
        ask(chat_backend(server.url), request)
    (body,) = server.bodies
    system, hi, looking, first, second = body["messages"]
    assert (system["role"], system["content"]) == ("system", "Be kind")
    assert (hi["role"], hi["content"]) == ("user", "Hi")
    assert looking["content"] == "Looking"
    assert [each["function"]["arguments"] for each in looking["tool_calls"]] == ['{"n":1}', '{"n":2}']
    assert [each["id"] for each in looking["tool_calls"]] == ["c1", "c1"]
    assert [message["content"] for message in (first, second)] == [' {"a":  1}', '{"a":2}']
    assert body["tools"][0]["function"]["name"] == "find"
    assert body["temperature"] == 0.5
    assert body["parallel_tool_calls"] is True
    assert body["stream"] is True


def test_arguments_that_were_no_object_are_sent_as_one() -> None:
    request = asking(user("Hi"), said(call("c1", "find", '{"n": ')), result("c1", "find", "broken arguments"))
    with serving(plain) as server:
        ask(chat_backend(server.url), request)
    assert server.bodies[0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == r'{"INVALID_JSON":"{\"n\": "}'


# What comes back --------------------------------------------------------------------------------------------


def test_text_reasoning_and_calls_are_streamed_and_answered() -> None:
    def answer(wire: Wire) -> None:
        wire.start()
        wire.delta({"role": "assistant", "reasoning_content": "Let me "})
        wire.delta({"reasoning_content": "see"})
        wire.text("Loo", "king")
        wire.tool_call(0, "same", "find", '{"n"', ": 1}")
        wire.tool_call(1, "same", "find", '{"n": NaN}')
        wire.tool_call(2, "c3", "ping")
        wire.end("tool_calls")

    with serving(answer) as server:
        deltas, answered = ask(chat_backend(server.url), asking())
    reasoning, *rest = answered.content
    assert reasoning["reasoning"] == "Let me see"
    assert rest == [
        {"text": "Looking"},
        call("same", "find", {"n": 1}),
        call("same", "find", '{"n": NaN}'),
        call("c3", "ping", {}),
    ]
    assert [delta for delta in deltas if isinstance(delta, TextDelta)] == [
        TextDelta("Loo"),
        TextDelta("king"),
    ]
    assert [delta for delta in deltas if isinstance(delta, ReasoningDelta)] == [
        ReasoningDelta("Let me "),
        ReasoningDelta("see"),
    ]
    pieces = [(delta.index, delta.name, delta.arguments) for delta in deltas if isinstance(delta, ArgumentsDelta)]
    assert pieces == [
        (0, "find", ""), (0, "find", '{"n"'), (0, "find", ": 1}"),
        (1, "find", ""), (1, "find", '{"n": NaN}'), (2, "ping", ""),
    ]  # fmt: skip


def test_f53_an_emoji_cut_between_two_chunks_is_said_whole() -> None:
    def answer(wire: Wire) -> None:
        wire.start()
        wire.text("a\ud83d", "\ude00b", "\ud83d")
        wire.end()

    with serving(answer) as server:
        deltas, answered = ask(chat_backend(server.url), asking())
    assert answered.content == [{"text": "a\U0001f600b\ufffd"}]
    assert [delta.text for delta in deltas] == ["a", "\U0001f600b", "\ufffd"]  # type: ignore[union-attr]


def test_usage_has_the_providers_own_counts() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
             "prompt_tokens_details": {"cached_tokens": 5}}  # fmt: skip

    def answer(wire: Wire) -> None:
        wire.start()
        wire.text("ok")
        wire.delta({}, "stop", usage=usage)
        wire.end(None)

    with serving(answer) as server:
        counted = ask(chat_backend(server.url), asking())[1].usage
    assert (counted.input_tokens, counted.output_tokens) == (9, 4)
    assert counted.details["cache_read_tokens"] == 5


def test_an_answer_cut_short_by_its_limit_is_an_answer() -> None:
    def answer(wire: Wire) -> None:
        wire.start()
        wire.text("So far")
        wire.end("length")

    with serving(answer) as server:
        assert ask(chat_backend(server.url), asking())[1].content == [{"text": "So far"}]


# How it fails -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_status_that_may_pass(status: int) -> None:
    assert failing(lambda wire: wire.refuse(status)).passing


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_status_that_will_not_pass(status: int) -> None:
    assert not failing(lambda wire: wire.refuse(status)).passing


def test_an_exhausted_quota_does_not_pass() -> None:
    body = {"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}}
    error = failing(lambda wire: wire.refuse(429, body))
    assert not error.passing
    assert "429, insufficient_quota" in str(error)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("soon", None), ("-3", None), ("inf", None)])
def test_the_wait_that_the_provider_asks_for(header: str, seconds: float | None) -> None:
    assert failing(lambda wire: wire.refuse(429, retry_after=header)).retry_after == seconds


def test_the_message_holds_neither_the_key_nor_the_request() -> None:
    secret = {"error": {"message": "Incorrect API key provided: sk-secret, for 'Hello'", "code": "sk-secret x"}}
    error = failing(lambda wire: wire.refuse(401, secret))
    assert str(error) == "the model answered with HTTP 401"


def test_a_connection_that_is_refused_passes() -> None:
    with serving(plain) as server:
        url = server.url
    with pytest.raises(ModelError) as caught:
        ask(chat_backend(url), asking())
    assert caught.value.passing


def cut(wire: Wire) -> None:
    wire.start()
    wire.text("Half an ans")
    wire.handler.close_connection = True


def clean_end_without_a_reason(wire: Wire) -> None:
    wire.start()
    wire.text("Half an ans")
    wire.end(None)


def error_event(wire: Wire) -> None:
    wire.start()
    wire.text("Half an ans")
    wire.raw(b'data: {"error": {"message": "overloaded", "type": "server_error", "code": "server_error"}}\n\n')


def no_json(wire: Wire) -> None:
    wire.start()
    wire.raw(b"data: {no json\n\n")
    wire.end()


def nothing(wire: Wire) -> None:
    wire.start()
    wire.handler.wfile.write(b"0\r\n\r\n")


@pytest.mark.parametrize("broken", [cut, clean_end_without_a_reason, error_event, no_json, nothing])
def test_an_answer_that_breaks_off_passes_and_is_no_answer(broken: Callable[[Wire], None]) -> None:
    assert failing(broken).passing


def test_a_provider_that_never_says_why_it_ended_can_be_used() -> None:
    with serving(clean_end_without_a_reason) as server:
        answered = ask(chat_backend(server.url, require_finish_reason=False), asking())[1]
    assert answered.content == [{"text": "Half an ans"}]


def test_a_refusal_of_the_content_filter_does_not_pass() -> None:
    def filtered(wire: Wire) -> None:
        wire.start()
        wire.end("content_filter")

    assert not failing(filtered).passing
