"""Rows as the plain dicts that the Python API returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads.engine import transcript

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Saved
    from criogen_threads.models import Checkpoint, Event, Message, Run, ToolCall


def milliseconds(moment: datetime | None) -> int | None:
    """Milliseconds since 1970."""
    return None if moment is None else round(moment.timestamp() * 1000)


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)


class Texts(dict[Any, str | None]):
    """Ids as text, each written once: the messages of a thread name few runs, and each other."""

    def __missing__(self, value: Any) -> str | None:
        text = self[value] = _text(value)
        return text


def message_view(message: Message) -> dict[str, Any]:
    """``role`` and ``content`` (a list of blocks), with what identifies the message."""
    return message_views([vars(message)])[0]


def message_views(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same of messages that are given by their columns."""
    text = Texts()
    return [
        {
            "id": text[row["id"]],
            "role": row["role"],
            "content": row["content"],
            "run_id": text[row["run_id"]],
            "thread_id": text[row["thread_id"]],
            "parent_id": text[row["parent_id"]],
            "agent": row["agent"],
            "position": row["position"],
            "metadata": row["metadata"] or {},
            "created_at_ms": milliseconds(row["created_at"]),
        }
        for row in rows
    ]


def checkpoint_view(checkpoint: Checkpoint) -> dict[str, Any]:
    """A place to ``rewind`` to; ``cut`` stands on one before which the history was cut off."""
    return checkpoint_views([vars(checkpoint)])[0]


def checkpoint_views(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same of checkpoints that are given by their columns."""
    return [
        {
            "id": str(row["id"]),
            "version": row["version"],
            "status": row["status"],
            "source": row["source"],
            "step": row["step"],
            "run_id": _text(row["run_id"]),
            "parent_id": _text(row["parent_id"]),
            "created_at_ms": milliseconds(row["created_at"]),
            **({"cut": True} if row["cut"] is True else {}),  # else False, or left to the database
        }
        for row in rows
    ]


def run_view(
    run: Run, required_action: list[dict[str, Any]] | None = None, usage: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A run; ``required_action`` lists the approvals that it waits for, ``usage`` is with the runs it asked for."""
    return {
        "id": str(run.id),
        "number": run.number,
        "status": run.status,
        "agent": run.agent,
        "actor_id": run.actor_id,
        "attempt": run.attempt,
        "client_id": run.client_id,
        "error_code": run.error_code,
        "last_error": run.error_message or None,
        "usage": run.usage if usage is None else usage,
        "forked_from": _text(run.forked_from_id),
        "parent_run": _text(run.parent_run_id),
        "required_action": required_action or None,
        "created_at_ms": milliseconds(run.created_at),
        "started_at_ms": milliseconds(run.started_at),
        "completed_at_ms": milliseconds(run.completed_at),
    }


def approval_view(call: ToolCall, agent: str, chain: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """A tool call that waits for a person; ``digest`` binds an answer to the arguments shown.

    Args:
        agent: Who asked for it.
        chain: The runs that asked each other down to it, as ``trees.link_view`` gives them.
    """
    return {
        "id": str(call.id),
        "agent": agent,
        "chain": list(chain),
        "name": call.name,
        "arguments": call.arguments,
        "digest": call.arguments_digest,
        "approver": call.approver,
        "try": call.try_number,
        "run_id": str(call.run_id),
        "created_at_ms": milliseconds(call.created_at),
        "expires_at_ms": milliseconds(call.expires_at),
    }


def event_view(event: Event, message: Message | None, call: ToolCall | None) -> dict[str, Any]:
    """An event with its details told in full: what it refers to is put in here, and stored once."""
    return {
        "id": str(event.id),
        "seq": event.seq,
        "type": event.type,
        "thread_id": str(event.thread_id),
        "run_id": _text(event.run_id),
        "agent": event.agent,
        "parent_id": _text(event.parent_id),
        "message_id": _text(event.message_id),
        "tool_call_id": _text(event.tool_call_id),
        "details": {**_referred(event.type, message, call), **(event.details or {})},
        "created_at_ms": milliseconds(event.created_at),
    }


def saved_events(saved: Saved, calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """The events of a save, as ``get_events`` returns them."""
    messages: dict[UUID | None, Message] = {message.id: message for message in saved.messages}
    known: dict[UUID | None, ToolCall] = {call.id: call for call in (*calls, *saved.calls)}
    return [event_view(event, messages.get(event.message_id), known.get(event.tool_call_id)) for event in saved.events]


def _referred(type: str, message: Message | None, call: ToolCall | None) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if call is not None:
        details = {"tool_name": call.name, "arguments": call.effective_arguments}
    if message is None:
        return details
    if type in ("tool_complete", "tool_error"):
        name = "result" if type == "tool_complete" else "error"
        result = message.content[0]["tool_result"]
        details[name] = result["content"]
        if "shown" in result:
            details["shown"] = result["shown"]
    elif type == "agent_complete":
        details["response"] = transcript.text_of(message.content)
    else:
        details["message"] = transcript.text_of(message.content)
    return details
