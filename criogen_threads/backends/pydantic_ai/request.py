"""Stored messages to pydantic-ai's."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import messages as ai
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition as AIToolDefinition

from criogen_threads.backends.base import ModelError
from criogen_threads.payload import dumps

from .text import clean, clean_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from criogen_threads.backends.base import Block, ModelRequest

PARTS: TypeAdapter[ai.ModelResponsePart] = TypeAdapter(ai.ModelResponsePart)
SPOKEN = frozenset({"content", "args", "tool_name", "tool_call_id", "part_kind"})
_RESPONSE_FIELDS = {field.name for field in dataclasses.fields(ai.ModelResponse)} - {"parts", "kind", "usage"}


def to_messages(request: ModelRequest) -> list[ai.ModelMessage]:
    """The conversation in pydantic-ai's format; what stands between two answers becomes one message."""
    messages: list[ai.ModelMessage] = []
    for message in request.messages:
        if message["role"] == "assistant":
            if response := _response(message["content"]):
                messages.append(response)
        elif parts := _request_parts(message):
            if messages and isinstance(messages[-1], ai.ModelRequest):
                parts = [*messages.pop().parts, *parts]
            messages.append(ai.ModelRequest(parts=parts))
    if request.instructions and messages and isinstance(messages[-1], ai.ModelRequest):
        messages[-1].instructions = clean(request.instructions)
    return messages


def to_parameters(request: ModelRequest) -> ModelRequestParameters:
    """The tools, and the instructions once more: some models read them here."""
    return ModelRequestParameters(
        function_tools=[
            AIToolDefinition(
                name=tool.name,
                description=clean(tool.description),
                parameters_json_schema=clean_json(dict(tool.parameters)),
            )
            for tool in request.tools
        ],
        instruction_parts=[ai.InstructionPart(clean(request.instructions))] if request.instructions else None,
    )


# What the user and the tools said ---------------------------------------------------------------------------


def _request_parts(message: Mapping[str, Any]) -> list[ai.ModelRequestPart]:
    if message["role"] == "tool":
        return [_tool_return(block["tool_result"]) for block in message["content"] if "tool_result" in block]
    content = list(_user_content(message["content"]))
    if not content:
        return []
    only_text = len(content) == 1 and isinstance(content[0], str)
    return [ai.UserPromptPart(content[0] if only_text else content)]  # type: ignore[arg-type]


def _user_content(blocks: list[Block]) -> Iterator[ai.UserContent]:
    for block in blocks:
        if "text" in block:
            yield clean(block["text"])
        elif "image" in block:
            yield _media(block["image"], "image")
        elif "file" in block:
            yield _media(block["file"], "file")


def _tool_return(result: Mapping[str, Any]) -> ai.ToolReturnPart:
    # marked as failed, some models would get the text wrapped: it says itself that it is an error
    content = result["content"]
    text = content if isinstance(content, str) else dumps(clean_json(content))
    return ai.ToolReturnPart(tool_name=result["name"], content=clean(text), tool_call_id=result["id"])


def _media(value: Mapping[str, Any], kind: str) -> Any:
    media_type = value.get("media_type")
    if "data" in value:
        return _binary(value, media_type)
    if "url" not in value:
        raise ModelError(f"A block with neither url nor data of its {kind} cannot be sent", passing=False)
    family = (media_type or kind).partition("/")[0]
    cls = {"image": ai.ImageUrl, "audio": ai.AudioUrl, "video": ai.VideoUrl}.get(family, ai.DocumentUrl)
    return cls(url=value["url"], media_type=media_type)


def _binary(value: Mapping[str, Any], media_type: str | None) -> ai.BinaryContent:
    try:
        data = base64.b64decode(value["data"], validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ModelError("A block whose data is not base64 cannot be sent", passing=False) from None
    return ai.BinaryContent(data=data, media_type=media_type or "application/octet-stream")


# What the model said ----------------------------------------------------------------------------------------


def _response(blocks: list[Block]) -> ai.ModelResponse | None:
    parts = [part for block in blocks if (part := _response_part(block)) is not None]
    known: dict[str, Any] = {}
    for block in blocks:
        kept = block.get("provider", {}).get("response", {})
        known.update({name: value for name, value in kept.items() if name in _RESPONSE_FIELDS})
    return ai.ModelResponse(parts=parts, **known) if parts else None


def _response_part(block: Block) -> ai.ModelResponsePart | None:
    bare = _bare_part(block)
    kept = block.get("provider", {}).get("part")
    if not kept:
        return bare
    said = {name: getattr(bare, name) for name in SPOKEN if hasattr(bare, name)}
    try:
        return PARTS.validate_python({**kept, **said})
    except ValidationError:
        return bare  # kept by another version: what is left is what everybody understands


def _bare_part(block: Block) -> ai.ModelResponsePart | None:
    if "text" in block:
        return ai.TextPart(clean(block["text"]))
    if "reasoning" in block:
        return ai.ThinkingPart(clean(block["reasoning"]))
    if "tool_call" in block:
        call = block["tool_call"]
        return ai.ToolCallPart(call["name"], clean_json(call["arguments"]), call["id"])
    media = block.get("image") or block.get("file") or {}
    return ai.FilePart(_binary(media, media.get("media_type"))) if "data" in media else None
