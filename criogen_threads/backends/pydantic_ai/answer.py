"""What pydantic-ai streams back, as deltas and stored blocks."""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pydantic_core
from pydantic_ai import messages as ai

from criogen_threads.backends.base import (
    ArgumentsDelta,
    ModelAnswer,
    ModelError,
    ReasoningDelta,
    TextDelta,
    Usage,
)

from .request import PARTS, SPOKEN
from .text import Joiner, clean, clean_json, parse_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_ai.models import StreamedResponse

    from criogen_threads.backends.base import Block, Delta

_COUNTS = (
    "cache_read_tokens",
    "cache_write_tokens",
    "input_audio_tokens",
    "output_audio_tokens",
    "cache_audio_read_tokens",
)
_RESPONSE_FIELDS = (
    "model_name",
    "provider_name",
    "canonical_system",
    "provider_response_id",
    "provider_details",
)
_ONLY_FOR_READING = {"timestamp", "logprobs", "finish_reason"}


class Deltas:
    """Turns the events of one response into deltas."""

    def __init__(self) -> None:
        self._joiners: defaultdict[int, Joiner] = defaultdict(Joiner)
        self._parts: dict[int, ai.ModelResponsePart] = {}
        self._calls: dict[int, int] = {}
        self._names: dict[int, str] = {}

    def of(self, event: object) -> Iterator[Delta]:
        """The deltas of one event; events that say nothing new have none."""
        if isinstance(event, ai.PartStartEvent):
            yield from self._start(event)
        elif isinstance(event, ai.PartDeltaEvent):
            yield from self._more(event)
        elif isinstance(event, ai.PartEndEvent) and (held := self._joiners[event.index].flush()):
            yield from self._say(event.index, held)

    def _start(self, event: ai.PartStartEvent) -> Iterator[Delta]:
        self._parts[event.index] = part = event.part
        if isinstance(part, ai.TextPart | ai.ThinkingPart):
            yield from self._say(event.index, self._joiners[event.index].feed(part.content))
        elif isinstance(part, ai.ToolCallPart):
            self._calls.setdefault(event.index, len(self._calls))
            self._names[event.index] = part.tool_name
            yield self._arguments(event.index, part.args)

    def _more(self, event: ai.PartDeltaEvent) -> Iterator[Delta]:
        delta = event.delta
        if isinstance(delta, ai.TextPartDelta | ai.ThinkingPartDelta):
            yield from self._say(event.index, self._joiners[event.index].feed(delta.content_delta or ""))
        elif isinstance(delta, ai.ToolCallPartDelta) and event.index in self._calls:
            self._names[event.index] += delta.tool_name_delta or ""
            if delta.args_delta:
                yield self._arguments(event.index, delta.args_delta)

    def _say(self, index: int, text: str) -> Iterator[Delta]:
        part = self._parts.get(index)
        if text and isinstance(part, ai.TextPart):
            yield TextDelta(text)
        elif text and isinstance(part, ai.ThinkingPart):
            yield ReasoningDelta(text)
        elif text and index in self._calls:
            yield ArgumentsDelta(self._calls[index], self._names[index], text)

    def _arguments(self, index: int, arguments: object) -> ArgumentsDelta:
        piece = arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""
        return ArgumentsDelta(self._calls[index], clean(self._names[index]), self._joiners[index].feed(piece))


def finished_answer(stream: StreamedResponse, require_finish_reason: bool) -> ModelAnswer:
    """The whole answer of a stream that has ended.

    Raises:
        ModelError: The stream was cut (passing), or the model gave no answer.
    """
    response = stream.get()
    if response.state == "incomplete" or (require_finish_reason and _lacks_finish_reason(stream, response)):
        raise ModelError("The model's answer broke off before its end", passing=True)
    if response.state != "complete":
        raise ModelError(f"The model left its answer {response.state}, which cannot be continued", passing=False)
    if not response.parts and response.finish_reason == "content_filter":
        raise ModelError("The model's content filter refused to answer", passing=False)
    if not response.parts and response.finish_reason == "error":
        raise ModelError("The model ended with an error instead of an answer", passing=True)
    return ModelAnswer(to_blocks(response), to_usage(response.usage))


def _lacks_finish_reason(stream: StreamedResponse, response: ai.ModelResponse) -> bool:
    said = response.provider_details or {}
    if response.provider_url is None or "finish_reason" in said or "refusal" in said:
        return False
    # for chat completions pydantic-ai writes "stop" where the provider said nothing
    module = sys.modules.get("pydantic_ai.models.openai")
    return response.finish_reason is None or (module is not None and isinstance(stream, module.OpenAIStreamedResponse))


def to_usage(usage: Any) -> Usage:
    """Tokens of the request, with the provider's own counts beside them."""
    details = {name: count for name, count in usage.details.items() if isinstance(count, int)}
    details.update({name: count for name in _COUNTS if (count := getattr(usage, name, 0))})
    return Usage(usage.input_tokens, usage.output_tokens, details)


# Blocks -----------------------------------------------------------------------------------------------------


def to_blocks(response: ai.ModelResponse) -> list[Block]:
    """The response as blocks; what the provider needs back of the response itself rides on the first."""
    blocks = [block for part in response.parts if (block := _block(part)) is not None]
    kept = next((block["provider"] for block in blocks if "provider" in block), None)
    if kept is not None and (known := _kept_of_response(response)):
        kept["response"] = known
    return blocks


def _block(part: ai.ModelResponsePart) -> Block | None:
    block = _spoken(part)
    kept = _kept(part) if block else _whole(part)
    if kept:
        block["provider"] = {"part": kept}
    elif isinstance(part, ai.TextPart | ai.ThinkingPart) and not part.content:
        return None
    return block or None


def _spoken(part: ai.ModelResponsePart) -> Block:
    if isinstance(part, ai.TextPart):
        return {"text": clean(part.content)}
    if isinstance(part, ai.ThinkingPart):
        return {"reasoning": clean(part.content)}
    if isinstance(part, ai.ToolCallPart):
        return {"tool_call": _call(part)}
    if isinstance(part, ai.FilePart):
        kind = "image" if part.content.is_image else "file"
        data = base64.b64encode(part.content.data).decode()
        return {kind: {"media_type": part.content.media_type, "data": data}}
    return {}


def _call(part: ai.ToolCallPart[Any]) -> dict[str, Any]:
    arguments = part.args if isinstance(part.args, str) else json.dumps(part.args or {})
    return {
        "id": clean(part.tool_call_id),
        "name": clean(part.tool_name),
        "arguments": parse_arguments(arguments),
    }


def _kept(part: ai.ModelResponsePart) -> dict[str, Any]:
    fields = (field.name for field in dataclasses.fields(part) if field.name not in SPOKEN)
    return {name: _plain(value) for name in fields if (value := getattr(part, name)) is not None}


def _whole(part: Any) -> dict[str, Any]:
    try:
        return dict(clean_json(PARTS.dump_python(part, mode="json")))
    except ValueError:  # not JSON, or not text
        return {}


def _kept_of_response(response: ai.ModelResponse) -> dict[str, Any]:
    known = {name: value for name in _RESPONSE_FIELDS if (value := getattr(response, name, None)) is not None}
    if details := known.pop("provider_details", None):
        rest = {name: value for name, value in details.items() if name not in _ONLY_FOR_READING}
        known |= {"provider_details": rest} if rest else {}
    return {name: _plain(value) for name, value in known.items()}


def _plain(value: Any) -> Any:
    # cleaned before, because half a surrogate pair stops the dump, and after, because NaN does not
    return clean_json(pydantic_core.to_jsonable_python(clean_json(value), bytes_mode="base64", fallback=str))
