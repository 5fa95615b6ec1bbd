"""Stored messages to pydantic-ai's and back: nothing lost, nothing that cannot be sent or stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_ai import messages as ai
from pydantic_ai.messages import ModelMessagesTypeAdapter

from criogen_threads.backends.base import ModelError, ToolDefinition
from criogen_threads.backends.pydantic_ai.answer import to_blocks
from criogen_threads.backends.pydantic_ai.request import to_messages, to_parameters
from criogen_threads.backends.pydantic_ai.text import Joiner, clean, parse_arguments
from criogen_threads.payload import dumps, loads
from tests.backends.support import asking, call, result, said, user

PNG = "iVBORw0KGgo="
TEXT = ai.TextPart("Hi", id="msg_1", provider_name="openai", provider_details={"phase": "final", "none": None})
THINKING = ai.ThinkingPart("so", id="rs_1", signature="c2ln", provider_name="anthropic", provider_details={"n": 1})
REDACTED = ai.ThinkingPart("", id="redacted_thinking", signature="eA==", provider_name="anthropic")
CALL = ai.ToolCallPart("find", {"n": [1, 2.5, None, True]}, "call_1", id="fc_1", provider_name="openai")
IMAGE = ai.FilePart(ai.BinaryImage(b"\x89PNG\r\n\x1a\n", media_type="image/png"), id="ig_1", provider_name="openai")
SEARCH = ai.NativeToolCallPart("web_search", {"query": "x"}, "ws_1", provider_name="openai")
FOUND = ai.NativeToolReturnPart("web_search", [{"url": "https://example.org"}], "ws_1", provider_name="openai")
COMPACTION = ai.CompactionPart("short", id="cmp_1", provider_name="openai", provider_details={"encrypted": "eA"})


def there_and_back(*parts: ai.ModelResponsePart, **fields: Any) -> tuple[list[dict[str, Any]], ai.ModelResponse]:
    """The blocks of a response, as they are stored, and what a later request makes of them."""
    blocks = loads(dumps(to_blocks(ai.ModelResponse(list(parts), **fields))))
    (message,) = to_messages(asking(said(*blocks)))
    assert isinstance(message, ai.ModelResponse)
    return blocks, message


@pytest.mark.parametrize(
    "part",
    [TEXT, THINKING, REDACTED, CALL, IMAGE, SEARCH, FOUND, COMPACTION],
    ids=lambda part: str(part.part_kind),
)
def test_what_a_provider_needs_back_is_given_back(part: Any) -> None:
    _, message = there_and_back(part)
    assert type(message.parts[0]) is type(part)
    assert message.parts == [part]


@pytest.mark.parametrize(
    "blocks",
    [
        [{"text": "Hi"}],
        [{"reasoning": "so"}, {"text": "Hi"}],
        [call("a", "find", {"b": 1, "a": [{"c": None}]}), call("a", "find", {})],
        [call("a", "find", "{broken")],
        [{"image": {"media_type": "image/png", "data": PNG}}],
        [{"file": {"media_type": "application/pdf", "data": PNG}}],
    ],
)
def test_blocks_without_provider_data_come_back_as_they_are(blocks: list[dict[str, Any]]) -> None:
    (message,) = to_messages(asking(said(*blocks)))
    assert isinstance(message, ai.ModelResponse)
    assert to_blocks(message) == blocks


def test_the_responses_own_data_rides_with_the_first_part_that_has_some() -> None:
    details = {"finish_reason": "stop", "timestamp": datetime.now(UTC), "container_id": "c_1"}
    fields = {"provider_name": "openai", "provider_response_id": "resp_1", "provider_url": "http://internal/"}
    blocks, message = there_and_back(ai.TextPart("a"), TEXT, THINKING, provider_details=details, **fields)
    assert [set(block.get("provider", {})) for block in blocks] == [set(), {"part", "response"}, {"part"}]
    assert message.provider_response_id == "resp_1"
    assert message.provider_name == "openai"
    assert message.provider_details == {"container_id": "c_1"}
    assert "internal" not in json.dumps(blocks)  # an address of the site's own network is nobody's business


def test_plain_blocks_carry_nothing_of_the_provider() -> None:
    response = ai.ModelResponse([ai.TextPart("a"), ai.ToolCallPart("f", "{}", "c")], provider_name="openai")
    assert to_blocks(response) == [{"text": "a"}, call("c", "f", {})]


def test_empty_text_is_no_block_and_an_answer_without_blocks_is_not_sent() -> None:
    assert to_blocks(ai.ModelResponse([ai.TextPart(""), ai.ThinkingPart("")])) == []
    (only,) = to_messages(asking(user("a"), said(), user("b")))
    assert [part.content for part in only.parts] == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "kept",
    [
        {"part": {"part_kind": "hologram", "depth": 3}},
        {"part": {"id": ["not", "text"]}},
        {"response": {"shape": "round"}},
        {"something": "else"},
    ],
)
def test_what_another_version_kept_does_not_stop_a_request(kept: dict[str, Any]) -> None:
    (message,) = to_messages(asking(said({"text": "Hi", "provider": kept}, {"provider": kept}, {"mood": "good"})))
    assert message.parts == [ai.TextPart("Hi")]


def test_tool_results_are_given_byte_for_byte_and_json_compactly() -> None:
    spaced = '{"b":  1, "a" : [1.50]}\n'
    messages = [
        result("a", "f", spaced),
        result("b", "g", {"b": [1, "é"], "a": None}),
        result("c", "h", "no", True),
    ]
    (message,) = to_messages(asking(said(call("a", "f", {})), *messages))[1:]
    assert [part.model_response_str() for part in message.parts] == [spaced, '{"b":[1,"é"],"a":null}', "no"]  # type: ignore[union-attr]
    assert [part.tool_call_id for part in message.parts] == ["a", "b", "c"]  # type: ignore[union-attr]


def test_what_stands_between_two_answers_is_one_message() -> None:
    request = asking(user("a"), said(call("x", "f", {})), result("x", "f", "1"), user("b"), instructions="Be kind")
    kinds = [[type(part).__name__ for part in message.parts] for message in to_messages(request)]
    assert kinds == [["UserPromptPart"], ["ToolCallPart"], ["ToolReturnPart", "UserPromptPart"]]
    assert to_messages(request)[-1].instructions == "Be kind"  # type: ignore[union-attr]


def test_a_users_images_and_files_are_sent() -> None:
    blocks = [
        {"text": "See"},
        {"image": {"url": "https://example.org/a.png"}},
        {"image": {"media_type": "image/png", "data": PNG}},
        {"file": {"url": "https://example.org/a", "media_type": "application/pdf"}},
        {"file": {"url": "https://example.org/b", "media_type": "audio/mpeg"}},
    ]
    (message,) = to_messages(asking({"role": "user", "content": blocks}))
    content = message.parts[0].content  # type: ignore[union-attr]
    assert [type(item) for item in content] == [
        str,
        ai.ImageUrl,
        ai.BinaryContent,
        ai.DocumentUrl,
        ai.AudioUrl,
    ]
    assert content[2].data.startswith(b"\x89PNG")


@pytest.mark.parametrize("image", [{}, {"data": "not base64!"}, {"data": 3}])
def test_media_that_cannot_be_read_fail_for_good(image: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as caught:
        to_messages(asking({"role": "user", "content": [{"image": image}]}))
    assert not caught.value.passing


def test_tools_and_instructions_are_parameters() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [ToolDefinition("find", "Finds \ud800", schema)]
    parameters = to_parameters(asking(instructions="Be kind", tools=tools))
    assert parameters.function_tools[0].parameters_json_schema == schema
    assert parameters.function_tools[0].description == "Finds \ufffd"
    assert [part.content for part in parameters.instruction_parts or []] == ["Be kind"]


# Text and arguments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (' {"a": 1} ', {"a": 1}),
        ('{"n": 12345678901234567890123}', {"n": 12345678901234567890123}),
        (r'{"e": "\ud83d\ude00", "half": "\ud83d"}', {"e": "\U0001f600", "half": "\ufffd"}),
        ('{"z": "\\u0000"}', {"z": "\0"}),
    ],
)
def test_arguments_that_are_an_object(text: str, arguments: dict[str, Any]) -> None:
    assert parse_arguments(text) == arguments


@pytest.mark.parametrize(
    "text",
    ['{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "[1]", '"x"', "null", '{"a": ', "{'a': 1}",
     '{"a":' * 200 + "1" + "}" * 200, "[" * 100_000, '{"n": ' + "9" * 5000 + "}"],
)  # fmt: skip
def test_arguments_that_are_not_stay_the_models_text(text: str) -> None:
    assert parse_arguments(text) == text


def test_lone_surrogates_do_not_reach_the_provider_or_the_database() -> None:
    blocks, _ = there_and_back(
        ai.TextPart("a\ud800b", provider_name="x", provider_details={"k\udc00": "\ud800"}),
        ai.ToolCallPart("f\ud800", {"\ud800": ["\udfff"]}, "c\ud800"),
    )
    assert blocks[0]["text"] == "a\ufffdb"
    assert blocks[1] == call("c\ufffd", "f\ufffd", {"\ufffd": ["\ufffd"]})
    request = asking(user("\ud800"), said(call("c", "f", {"a": "\ud800"})), result("c", "f", {"r": "\ud800"}))
    assert "\ufffd" in ModelMessagesTypeAdapter.dump_json(to_messages(request)).decode()


def test_details_that_are_no_json_are_kept_as_json() -> None:
    details = {"when": datetime(2026, 1, 2, tzinfo=UTC), "raw": b"\xff", "n": float("nan"), "o": object}
    blocks, _ = there_and_back(ai.TextPart("a", provider_name="x", provider_details=details))
    kept = blocks[0]["provider"]["part"]["provider_details"]
    assert kept["raw"] == "_w=="
    assert kept["n"] is None
    assert kept["when"].startswith("2026-01-02")


def test_text_that_comes_in_pieces_is_never_cut_inside_a_pair() -> None:
    pieces = ["a\ud83d", "\ude00b", "\ud83d", "c", "\ude00", "\ud83d"]
    joiner = Joiner()
    said_so_far = [joiner.feed(piece) for piece in pieces] + [joiner.flush()]
    assert said_so_far == ["a", "\U0001f600b", "", "\ufffdc", "\ufffd", "", "\ufffd"]
    assert "".join(said_so_far) == clean("".join(pieces))


def test_clean_text_is_left_alone() -> None:
    text = "\ufeffa\0\U0001f600\ufffd"
    assert clean(text) is text
    assert clean("\ufeff\ud800") == "\ufeff\ufffd"
