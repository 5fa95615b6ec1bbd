"""The open message: what a model has said so far of an answer that is not saved yet.

An answer streams in parts (its text, its reasoning, the arguments of each call), each with offsets of its own,
counted in code points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TEXT, REASONING, ARGUMENTS = "text", "reasoning", "arguments"


def part_id(message_id: str, kind: str, index: int = 0) -> str:
    """The id of a part on the wire: the message's own for its text."""
    if kind == TEXT:
        return message_id
    return f"{message_id}:{index}" if kind == ARGUMENTS else f"{message_id}:reasoning"


@dataclass(slots=True)
class Part:
    """One part as far as it is known; ``text`` is joined only when somebody asks."""

    kind: str
    name: str = ""
    length: int = 0
    _pieces: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self.length += len(text)

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


@dataclass(slots=True)
class OpenMessage:
    """An answer under way."""

    run_id: str
    message_id: str
    parts: dict[str, Part] = field(default_factory=dict)

    def part(self, name: str, kind: str, tool: str = "") -> Part:
        return self.parts.setdefault(name, Part(kind, tool))

    def snapshot(self) -> dict[str, Any]:
        """Everything so far, as plain values for the channel layer."""
        parts = [[name, part.kind, part.name, part.text] for name, part in self.parts.items()]
        return {"run": self.run_id, "message": self.message_id, "parts": parts}

    @classmethod
    def of(cls, snapshot: dict[str, Any]) -> OpenMessage:
        found = cls(snapshot["run"], snapshot["message"])
        for name, kind, tool, text in snapshot["parts"]:
            found.part(name, kind, tool).add(text)
        return found
