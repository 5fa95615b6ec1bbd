"""Rows of tool calls, and the events that speak of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from criogen_threads.models import ToolCall
from criogen_threads.signals import approval_requested

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Pen
    from criogen_threads.models import Event, Run


@dataclass(frozen=True, slots=True)
class Planned:
    """A tool call that gets its row: ready, running at once, or waiting for a person."""

    call: ToolCall
    expires_in: timedelta | None = None


def add_calls(pen: Pen, run: Run, planned: Sequence[Planned]) -> None:
    """Insert rows for tool calls; those that need a person become open approvals."""
    now = pen.locked.now
    waiting = 0
    for plan in planned:
        call = pen.call(plan.call)
        if call.status == ToolCall.Status.RUNNING:
            call.started_at = now
            note_start(pen, call, run)
        elif call.status == ToolCall.Status.WAITING:
            waiting += 1
            call.started_at = now
            note_start(pen, call, run)
        elif call.status == ToolCall.Status.AWAITING_APPROVAL:
            waiting += 1
            call.expires_at = None if plan.expires_in is None else now + plan.expires_in
            request_approval(pen, call, run)
    if waiting:
        pen.thread(pending=pen.locked.pending + waiting)


def request_approval(pen: Pen, call: ToolCall, run: Run) -> None:
    """Say that a call waits for a person."""
    note_call(pen, "approval_requested", call, run)
    pen.tell(approval_requested, run_id=run.id, call_id=call.id, tool=call.name, approver=call.approver)


def note_start(pen: Pen, call: ToolCall, run: Run) -> Event:
    """A call begins. The event of asking another agent has the call's id: that agent's events hang below it."""
    return note_call(pen, "tool_start", call, run, **({"id": call.id} if call.child_run_id else {}))


def note_call(pen: Pen, type: str, call: ToolCall, run: Run, *, parent: UUID | None = None, **values: Any) -> Event:
    """An event that speaks of a call, below the start of its run unless another parent is given."""
    return pen.event(type, run, parent=parent or run.id, tool_call_id=call.id, **values)
