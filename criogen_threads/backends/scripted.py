"""A model that answers from a Python function: offline, for tests and the demo."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from .base import (
    ArgumentsDelta,
    Block,
    ModelAnswer,
    ModelBackend,
    ModelError,
    ReasoningDelta,
    TextDelta,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence

    from .base import Delta, ModelRequest, ToolDefinition

    Messages: TypeAlias = Sequence[Mapping[str, Any]]
    Answer: TypeAlias = str | Sequence[Mapping[str, Any]]
    Respond: TypeAlias = Callable[[Messages, Sequence[ToolDefinition]], Answer | Awaitable[Answer]]


class ScriptedModel(ModelBackend):
    """A model whose answers a function gives.

    The function is called once for each request and should depend on its arguments alone: then a retry, in
    this process or another one, goes on at the right place.

    Args:
        respond: ``respond(messages, tools)`` returns the answer's text, or its list of blocks, or raises what
            the request is to fail with (ModelError for what a provider would report). It may be async. A tool
            call block may leave out ``arguments`` and ``id``: ids are then "call-1", "call-2", … along the
            conversation.
        chunk: Code points in one streamed piece.
        delay: Seconds before each piece.
    """

    def __init__(self, respond: Respond, *, chunk: int = 12, delay: float = 0.0) -> None:
        if chunk < 1:
            raise ValueError("chunk is the number of code points in one piece: at least 1")
        self.respond = respond
        self.chunk = chunk
        self.delay = delay

    @classmethod
    def of(cls, *answers: Answer | Exception, chunk: int = 12, delay: float = 0.0) -> ScriptedModel:
        """A model that gives these answers one after the other.

        Which one is next is the number of assistant messages already in the conversation. An exception is
        raised in its place, every time; after the last answer a ModelError is.
        """

        def respond(messages: Messages, _tools: Sequence[ToolDefinition]) -> Answer:
            position = sum(message["role"] == "assistant" for message in messages)
            if position >= len(answers):
                raise ModelError(f"The script has {len(answers)} answers, and all are given", passing=False)
            answer = answers[position]
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[no-any-return]

        return cls(respond, chunk=chunk, delay=delay)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | ModelAnswer]:
        """See ModelBackend. Usage is counted from the lengths: the same request costs the same each time."""
        answer = self.respond(request.messages, request.tools)
        given = await answer if inspect.isawaitable(answer) else answer
        content = _blocks(given, _calls_so_far(request.messages))
        for delta in self._deltas(content):
            await asyncio.sleep(self.delay)
            yield delta
        yield ModelAnswer(content, _usage(request, content))

    def _deltas(self, content: list[Block]) -> Iterator[Delta]:
        calls = 0
        for block in content:
            if "text" in block:
                yield from map(TextDelta, self._pieces(block["text"]))
            elif "reasoning" in block:
                yield from map(ReasoningDelta, self._pieces(block["reasoning"]))
            elif "tool_call" in block:
                name, arguments = block["tool_call"]["name"], block["tool_call"]["arguments"]
                text = arguments if isinstance(arguments, str) else _json(arguments)
                for piece in self._pieces(text) or [""]:
                    yield ArgumentsDelta(calls, name, piece)
                calls += 1

    def _pieces(self, text: str) -> list[str]:
        return [text[start : start + self.chunk] for start in range(0, len(text), self.chunk)]


def _blocks(answer: object, calls: int) -> list[Block]:
    if isinstance(answer, str):
        return [{"text": answer}]
    if not isinstance(answer, list | tuple) or not all(isinstance(block, dict) for block in answer):
        raise TypeError(f"respond gives text or a list of blocks, not {type(answer).__name__}")
    blocks = []
    for block in answer:
        if "tool_call" in block:
            calls += 1
            block = {**block, "tool_call": {"id": f"call-{calls}", "arguments": {}, **block["tool_call"]}}
        blocks.append(dict(block))
    return blocks


def _calls_so_far(messages: Messages) -> int:
    return sum("tool_call" in block for message in messages for block in message["content"])


def _usage(request: ModelRequest, content: list[Block]) -> Usage:
    asked = len(request.instructions) + len(_json([dict(message) for message in request.messages]))
    return Usage(input_tokens=asked // 4 + 1, output_tokens=len(_json(content)) // 4 + 1)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
