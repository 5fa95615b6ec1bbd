"""What a client is told of a domain event, in AG-UI 1.0: a pure function of the event and what the client has open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ag_ui.core import events as ag

from criogen_threads.engine import transcript
from criogen_threads.engine.views import approval_view
from criogen_threads.streaming.parts import ARGUMENTS, REASONING, TEXT, part_id
from criogen_threads.streaming.wires import (
    PROTOCOL,
    Open,
    content_part,
    custom,
    end_part,
    start_part,
    wire,
    withdraw,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from criogen_threads.engine.telling import Told
    from criogen_threads.models import Message, ToolCall
    from criogen_threads.streaming.showing import Viewer
    from criogen_threads.streaming.wires import Wire

# Saved events ----------------------------------------------------------------------------------------------------


def project(open: Open, told: Told, key: str, viewer: Viewer, *, consistent: bool = True) -> list[Wire]:
    """The AG-UI events of one domain event. ``open`` moves on.

    Args:
        key: The thread's, which is AG-UI's threadId.
        consistent: False where the streamed text is not how the saved one begins: it is then sent anew.
    """
    if not consistent and told.message is not None and open.message == str(told.message.id):
        return [*withdraw(open), *_project(open, told, key, viewer)]
    return _project(open, told, key, viewer)


def _project(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:
    handler = _HANDLERS.get(told.event.type)
    if handler is not None:
        return handler(open, told, key, viewer)
    if told.event.type in _SILENT:
        return []
    return [wire(ag.CustomEvent(name=told.event.type, value=told.event.details or {}))]


def _run_start(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001 (one signature)
    run, attempt = str(told.event.run_id), (told.event.details or {}).get("attempt", 1)
    if open.run == run and open.attempt == attempt:
        return []  # an answered approval: the same run goes on
    before = interrupt(open)
    open.run, open.attempt = run, attempt
    parent = str(told.run.parent_run_id) if told.run is not None and told.run.parent_run_id else None
    started = ag.RunStartedEvent(thread_id=key, run_id=run, parent_run_id=parent, protocol_version=PROTOCOL)
    return [*before, wire(started)]


def interrupt(open: Open) -> list[Wire]:
    """The run that a client has open never ended: its process died."""
    events = withdraw(open)
    if open.run is not None:
        message = "The run was interrupted: its process died. Continue it with retry."
        events.append(wire(ag.RunErrorEvent(message=message, code="thread_interrupted")))
        open.run = None
    return events


def _message(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001 (one signature)
    message = told.message
    if message is None:
        return []
    if message.role == "assistant":
        return list(_answer(open, message, viewer))
    text, content = transcript.text_of(message.content), _other_blocks(message)
    name, metadata = str(message.id), {**place(message), **({"content": content} if content else {})}
    start = ag.TextMessageStartEvent(message_id=name, role="user")
    return [wire(start), content_part(name, TEXT, text), *end_part(name, TEXT, metadata)]


def place(message: Message) -> dict[str, Any]:
    """Where a saved message stands on its branch: on the wire, the metadata of its end."""
    return {"parent": str(message.parent_id) if message.parent_id else None, "position": message.position}


def _other_blocks(message: Message) -> list[Any]:
    """Images and files of a user's message, which AG-UI's text events do not carry."""
    return [
        {name: value for name, value in block.items() if name != "provider"}
        for block in message.content
        if "image" in block or "file" in block
    ]


def _answer(open: Open, message: Message, viewer: Viewer) -> Iterator[Wire]:
    """A saved answer: what the client has not got yet of it, and its end."""
    name = str(message.id)
    if open.message not in (None, name):
        yield from withdraw(open)
    parts = list(_parts(message, viewer))
    for part, kind, tool, text in parts:
        known, offset = open.parts.pop(part, (None, 0))
        if known is None:
            yield from start_part(part, kind, tool, name, message.agent)
        if text[offset:]:
            yield content_part(part, kind, text[offset:], {"offset": offset, "end": len(text)})
        yield from end_part(part, kind, place(message))
    for part, (kind, _) in open.parts.items():
        yield from end_part(part, kind)
    if not parts:
        yield custom("empty_message", messageId=name, **place(message))  # nothing of it is for this person
    open.close()


def _parts(message: Message, viewer: Viewer) -> Iterator[tuple[str, str, str, str]]:
    name = str(message.id)
    reasoning = "".join(b["reasoning"] for b in message.content if isinstance(b.get("reasoning"), str))
    if reasoning:
        yield part_id(name, REASONING), REASONING, "", reasoning
    if text := transcript.text_of(message.content):
        yield name, TEXT, "", text
    for index, call in enumerate(transcript.tool_calls(message.content)):
        if viewer.sees(message.agent, call["name"]):
            arguments = viewer.arguments(message.agent, call["name"], call["arguments"])
            yield part_id(name, ARGUMENTS, index), ARGUMENTS, call["name"], json_text(arguments)


def json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def call_name(call: ToolCall) -> str:
    """The id of a tool call on the wire: the provider's own repeats."""
    return part_id(str(call.message_id), ARGUMENTS, call.index)


def _tool_start(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001
    call = told.call
    if call is None or not viewer.sees(told.event.agent, call.name):
        return []
    return [custom("tool_started", toolCallId=call_name(call), id=str(call.pk), **_asked(told, call, viewer))]


def _asked(told: Told, call: ToolCall, viewer: Viewer) -> dict[str, str]:
    """``agent`` and ``runId`` of whom the call asks, where it asks another agent."""
    if call.child_run_id is None or viewer.sees(told.event.agent, call.name) != "all":
        return {}
    return {"agent": call.effective_arguments["agent"], "runId": str(call.child_run_id)}


def _result(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001
    message, call = told.message, told.call
    if message is None or call is None:
        return []
    shown = viewer.sees(told.event.agent, call.name)
    block = message.content[0]["tool_result"]
    content = viewer.result(told.event.agent, block) if shown else ""
    metadata = {**place(message), "isError": bool(block.get("is_error")), **({} if shown else {"hidden": True})}
    result = ag.ToolCallResultEvent(
        message_id=str(message.id), tool_call_id=call_name(call), content=json_text(content), role="tool",
        metadata=metadata,
    )  # fmt: skip
    return [wire(result)]


def approval(call: ToolCall, agent: str, viewer: Viewer, chain: Sequence[dict[str, Any]] = ()) -> dict[str, Any] | None:
    """An open approval as this person is shown it; None where nothing is. ``chain``: as ``trees.chain_view``."""
    return viewer.approval(agent, {**approval_view(call, agent, chain), "toolCallId": call_name(call)})


def _approval_requested(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001
    shown = approval(told.call, told.event.agent, viewer) if told.call is not None else None
    return [] if shown is None else [custom("approval_requested", **shown)]


def _approval_decided(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001
    if told.call is None or not viewer.sees(told.event.agent, told.call.name):
        return []
    approved = (told.event.details or {}).get("approved", told.call.approved)
    return [custom("approval_decided", id=str(told.call.pk), toolCallId=call_name(told.call), approved=approved)]


def _fork(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001
    if told.checkpoint is None:
        return []
    tail = told.checkpoint.message_id
    return [custom("rewound", checkpoint=str(told.checkpoint.pk), messageId=str(tail) if tail else None)]


def _error(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001
    details, run = told.event.details or {}, str(told.event.run_id)
    code, message = details.get("code", "error"), details.get("error", "")
    if open.run != run:
        return [custom("run_failed", runId=run, code=code, message=message)]
    events = withdraw(open)
    if details.get("partial"):
        events.append(custom("partial", runId=run, text=details["partial"]))
    open.run = None
    return [*events, failed(key, run, code, message)]


def _run_complete(open: Open, told: Told, key: str, viewer: Viewer) -> list[Wire]:  # noqa: ARG001
    events, open.run = withdraw(open), None
    return [*events, finished(key, str(told.event.run_id))]


def finished(key: str, run: str) -> Wire:
    """A run ended well."""
    return wire(ag.RunFinishedEvent(thread_id=key, run_id=run, outcome=ag.RunFinishedSuccessOutcome()))


def failed(key: str, run: str, code: str, message: str) -> Wire:
    """A run ended otherwise: it was cancelled, or failed."""
    if code == "cancelled":
        return wire(ag.RunFinishedEvent(thread_id=key, run_id=run, outcome=ag.RunFinishedCancelledOutcome()))
    return wire(ag.RunErrorEvent(message=message, code=code))


def suspended(open: Open, key: str, run: str, interrupts: list[ag.Interrupt]) -> list[Wire]:
    """The run waits for people. What this person may answer are interrupts."""
    open.run = None
    outcome: Any = ag.RunFinishedSuccessOutcome()
    if interrupts:
        outcome = ag.RunFinishedInterruptOutcome(interrupts=interrupts)
    return [wire(ag.RunFinishedEvent(thread_id=key, run_id=run, outcome=outcome))]


_HANDLERS: dict[str, Callable[[Open, Told, str, Viewer], list[Wire]]] = {
    "run_start": _run_start,
    "message": _message,
    "tool_start": _tool_start,
    "tool_complete": _result,
    "tool_error": _result,
    "approval_requested": _approval_requested,
    "approval_decided": _approval_decided,
    "checkpoint_fork": _fork,
    "error": _error,
    "run_complete": _run_complete,
}
_SILENT = frozenset({"agent_start", "agent_complete", "summary", "asked_decided"})
