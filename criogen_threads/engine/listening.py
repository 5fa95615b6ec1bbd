"""What a run tells those who watch it: live pieces as they come, and what was saved, once it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from criogen_threads.backends.base import ArgumentsDelta, Delta, ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Saved

Listener: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Called on the run's event loop with each event; it must return at once."""


def delta_event(run_id: UUID, message_id: UUID, delta: Delta) -> dict[str, Any]:
    """A live piece of an answer: ``text_delta``, ``reasoning_delta`` or ``arguments_delta``."""
    event: dict[str, Any] = {"run_id": str(run_id), "message_id": str(message_id)}
    match delta:
        case TextDelta(text):
            return {"type": "text_delta", **event, "text": text}
        case ReasoningDelta(text):
            return {"type": "reasoning_delta", **event, "text": text}
        case ArgumentsDelta(index, name, arguments):
            return {
                "type": "arguments_delta",
                **event,
                "index": index,
                "tool_name": name,
                "arguments": arguments,
            }


def discarded_event(run_id: UUID, message_id: UUID) -> dict[str, Any]:
    """The pieces of this message are void: the model is asked again, under a new message id."""
    return {"type": "discarded", "run_id": str(run_id), "message_id": str(message_id)}


def saved_events(saved: Saved, calls: Mapping[UUID, Any]) -> list[dict[str, Any]]:
    """The events of a save, as ``get_events`` returns them."""
    from criogen_threads.engine.views import event_view

    messages = {message.id: message for message in saved.messages}
    known = {**calls, **{call.id: call for call in saved.calls}}
    return [
        event_view(event, messages.get(event.message_id), known.get(event.tool_call_id))
        for event in saved.events
    ]
