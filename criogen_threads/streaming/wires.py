"""The pieces that AG-UI events are made of, and what a client has open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ag_ui.core import events as ag

from criogen_threads.streaming.parts import ARGUMENTS, TEXT

PROTOCOL = "1.0"
Wire = dict[str, Any]

Custom = Literal[
    "approval_decided", "approval_requested", "discarded", "empty_message", "partial", "resync", "rewound",
    "run_failed", "state", "tool_started", "waiting",
]  # fmt: skip
"""Names of the custom events, on the wire with ``criogen.`` before them: docs/feed.md says what each tells."""


@dataclass(slots=True)
class Open:
    """What a client has open: the run under way, and the message that streams with an offset for each part."""

    run: str | None = None
    attempt: int = 1
    message: str | None = None
    parts: dict[str, tuple[str, int]] = field(default_factory=dict)  # id: kind, offset

    def close(self) -> None:
        self.message = None
        self.parts = {}

    def copy(self) -> Open:
        return Open(self.run, self.attempt, self.message, dict(self.parts))

    def mark(self) -> tuple[Any, ...]:
        """Equal for two clients that have the same open."""
        return (self.run, self.attempt, self.message, tuple(self.parts.items()))


def wire(event: ag.BaseEvent) -> Wire:
    """An event as it is sent."""
    return event.model_dump(mode="json", by_alias=True)


def custom(name: Custom, /, **value: Any) -> Wire:
    return wire(ag.CustomEvent(name=f"criogen.{name}", value=value))


# Live pieces -----------------------------------------------------------------------------------------------------


def live(
    open: Open, message: str, name: str, kind: str, tool: str, text: str, offset: int, agent: str = ""
) -> list[Wire]:
    """The next piece of a part, which is opened where it is new. ``open`` moves on."""
    events: list[Wire] = []
    open.message = message
    if name not in open.parts:
        events += start_part(name, kind, tool, message, agent)
    open.parts[name] = (kind, offset + len(text))
    place = {"offset": offset, "end": offset + len(text)}
    return [*events, content_part(name, kind, text, place)]


def start_part(name: str, kind: str, tool: str, message: str, agent: str = "") -> list[Wire]:
    if kind == TEXT:
        return [wire(ag.TextMessageStartEvent(message_id=name, role="assistant", name=agent or None))]
    if kind == ARGUMENTS:
        return [wire(ag.ToolCallStartEvent(tool_call_id=name, tool_call_name=tool, parent_message_id=message))]
    return [wire(ag.ReasoningStartEvent(message_id=name)), wire(ag.ReasoningMessageStartEvent(message_id=name))]


def content_part(name: str, kind: str, text: str, metadata: dict[str, Any] | None = None) -> Wire:
    if kind == TEXT:
        return wire(ag.TextMessageContentEvent(message_id=name, delta=text, metadata=metadata))
    if kind == ARGUMENTS:
        return wire(ag.ToolCallArgsEvent(tool_call_id=name, delta=text, metadata=metadata))
    return wire(ag.ReasoningMessageContentEvent(message_id=name, delta=text, metadata=metadata))


def end_part(name: str, kind: str, metadata: dict[str, Any] | None = None) -> list[Wire]:
    if kind == TEXT:
        return [wire(ag.TextMessageEndEvent(message_id=name, metadata=metadata))]
    if kind == ARGUMENTS:
        return [wire(ag.ToolCallEndEvent(tool_call_id=name, metadata=metadata))]
    end = ag.ReasoningMessageEndEvent(message_id=name, metadata=metadata)
    return [wire(end), wire(ag.ReasoningEndEvent(message_id=name))]


def withdraw(open: Open) -> list[Wire]:
    """The half answer that a client has is void: its parts end, and it goes."""
    if open.message is None:
        return []
    ends = [event for name, (kind, _) in open.parts.items() for event in end_part(name, kind)]
    gone = custom("discarded", messageId=open.message)
    open.close()
    return [*ends, gone]
