"""What a model is to the engine: one request, streamed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

Block: TypeAlias = dict[str, Any]
"""One block of a message's content: ``{"text": …}``, ``{"tool_call": {…}}``, ``{"tool_result": {…}}``,
``{"reasoning": …}``, ``{"image": …}`` or ``{"file": …}``."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything that one request needs.

    ``messages`` are ``{"role", "content"}`` dicts in the stored format, always valid: one result for each tool
    call, right behind the answer that asked.
    """

    instructions: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[ToolDefinition] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next piece of what the model thinks aloud."""

    text: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """The next piece of a tool call's arguments; ``index`` counts the calls of this answer from 0."""

    index: int
    name: str
    arguments: str


Delta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request."""

    input_tokens: int = 0
    output_tokens: int = 0
    details: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The whole answer: what is saved. The last thing that a stream yields.

    A tool call block is ``{"tool_call": {"id", "name", "arguments"}}``, its arguments a JSON object, or the
    model's own text where that was not a JSON object (the model is then told so).
    """

    content: list[Block]
    usage: Usage = Usage()


class ModelError(Exception):
    """The request failed.

    Args:
        message: What happened, without secrets: it is saved on the run.
        passing: Whether the same request may succeed when sent again.
        retry_after: Seconds that the provider asks to wait.
    """

    def __init__(self, message: str, *, passing: bool, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.passing = passing
        self.retry_after = retry_after


class ModelBackend(ABC):
    """One model. A subclass sends one request and says what came back; the engine does the rest."""

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | ModelAnswer]:
        """Send the request; yield deltas as they come, then exactly one ModelAnswer.

        Closing the iterator (or cancelling the task) closes the provider's stream: no token is asked for
        afterwards. No database connection may be held.

        Raises:
            ModelError: The provider could not be reached, or refused.
        """
