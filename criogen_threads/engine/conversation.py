"""A branch with the calls that are open on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from criogen_threads.engine import transcript
from criogen_threads.engine.journal import branches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from criogen_threads.models import Message, ToolCall


@dataclass(slots=True)
class Conversation:
    """The messages of a branch, oldest first, and every row of the calls of its last answer.

    A call is open when its result is not on this branch; its own status does not say so after a rewind.
    """

    messages: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    @classmethod
    def read(cls, tail: UUID | None) -> Conversation:
        """The conversation up to a message, with the calls of its last answer."""
        conversation = cls(branches.messages(tail))
        answer = conversation.last_answer
        if answer is not None and transcript.tool_calls(answer.content):
            conversation.calls = branches.calls_of(answer.id, answer.thread_id)
        return conversation

    @property
    def tail(self) -> str:
        """Role of the last message."""
        return self.messages[-1].role if self.messages else ""

    @property
    def last_answer(self) -> Message | None:
        """The answer that open calls belong to: the model's last one, unless a user spoke after it."""
        for message in reversed(self.messages):
            if message.role == "user":
                return None
            if message.role == "assistant":
                return message
        return None

    def asked(self) -> list[dict[str, Any]]:
        """The calls of the last answer, as the model asked for them."""
        answer = self.last_answer
        return transcript.tool_calls(answer.content) if answer else []

    def open_indexes(self) -> list[int]:
        """Which of them have no result on this branch."""
        results = takewhile(lambda message: message.role == "tool", reversed(self.messages))
        here = {message.id for message in results}
        settled = {call.index for call in self.calls if call.result_id in here}
        return [index for index in range(len(self.asked())) if index not in settled]

    def newest(self, run_id: UUID) -> dict[int, ToolCall]:
        """By index, the newest row of each call in this run."""
        return {call.index: call for call in self.calls if call.run_id == run_id}

    def started(self, index: int) -> bool:
        """Whether this call has ever begun to run, in any run: it may have taken effect."""
        return any(call.started_at is not None for call in self.calls if call.index == index)

    def closings(self) -> Iterator[tuple[dict[str, Any], ToolCall | None, str]]:
        """Each open call with its newest row and the text that closes it, when a new turn leaves it behind."""
        asked = self.asked()
        rows = {call.index: call for call in self.calls}
        for index in self.open_indexes():
            yield asked[index], rows.get(index), transcript.closing_text(self.started(index))

    def add(self, messages: Iterable[Message], calls: Iterable[ToolCall]) -> None:
        """What a save has added."""
        for message in messages:
            self.messages.append(message)
            if message.role == "assistant":
                self.calls = []
        self.calls.extend(calls)
