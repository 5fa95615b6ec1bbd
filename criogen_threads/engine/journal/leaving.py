"""What happens to a run, its approvals and its open calls when a thread goes on without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Q

from criogen_threads.engine import transcript
from criogen_threads.engine.conversation import Conversation
from criogen_threads.engine.journal import memories
from criogen_threads.engine.journal.calls import note_call
from criogen_threads.engine.journal.pen import Pen
from criogen_threads.models import Run, ToolCall
from criogen_threads.signals import approval_decided, run_finished

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Locked
    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.errors import CriogenError
    from criogen_threads.models.tool_call import ToolCallQuerySet


def awaiting(session: Session, locked: Locked) -> ToolCallQuerySet:
    """The open approvals of the thread's current run."""
    calls = ToolCall.objects.using(session.alias).filter(thread=locked.id, run=locked.current_run_id)
    return calls.filter(status=ToolCall.Status.AWAITING_APPROVAL)


def has_expired(session: Session, locked: Locked) -> bool:
    """Whether nobody answered one of the open approvals in time, or one of those of the agents that were asked."""
    runs = [(locked.id, locked.current_run_id)]
    while runs:
        thread_id, run_id = runs.pop()
        calls = ToolCall.objects.using(session.alias).filter(thread=thread_id, run=run_id)
        if calls.awaiting_approval().filter(expires_at__lte=locked.now).exists():
            return True
        runs += calls.waiting().values_list("child_run__thread", "child_run")
    return False


def expire_approvals(session: Session, locked: Locked) -> None:
    """Approvals past their time count as rejected from now on."""
    if not locked.pending:
        return
    overdue = list(awaiting(session, locked).filter(expires_at__lte=locked.now))
    run = session.find(Run, locked.current_run_id)
    if run is None or not overdue:
        return
    pen = Pen(session, locked)
    for call in overdue:
        pen.update(ToolCall, call.pk, status=ToolCall.Status.EXPIRED)
        note_call(pen, "approval_decided", call, run, details={"approved": False, "expired": True})
        pen.tell(approval_decided, run_id=run.id, call_id=call.pk, tool=call.name, approved=False, decided_by=None)
    locked.pending -= len(overdue)
    pen.thread(pending=locked.pending)
    pen.write()
    locked.event_seq += len(pen.saved.events)


def leave_run(pen: Pen, error: type[CriogenError]) -> None:
    """The current run, unfinished, ends here as failed; what it waited for is void."""
    run = pen.session.find(Run, pen.locked.current_run_id, status__in=Run.UNFINISHED)
    if run is None:
        return
    leave_calls(pen, run)
    fail_run(pen, run, error(), parent=run.id)


def fail_run(
    pen: Pen, run: Run, error: CriogenError, *, parent: UUID | None = None, partial: str = "", **columns: Any
) -> None:
    """A run ends as failed: its row, its event, its signal.

    Args:
        parent: The event of its start; None where it never started.
        partial: Text of the answer that was under way.
        columns: What else its row says from now on.
    """
    code, message = error.code, str(error)
    columns |= {"error_code": code, "error_message": message, "completed_at": pen.locked.now}
    pen.update(Run, run.id, status=Run.Status.FAILED, **columns)
    details = {"code": code, "error": message, **({"partial": partial} if partial else {})}
    pen.event("error", run, parent=parent, details=details)
    pen.tell(run_finished, run_id=run.id, agent=run.agent, status="failed", error_code=code)


def leave_calls(pen: Pen, run: Run) -> None:
    """A run ends: what had started is unknown, and nobody can answer what waited; a retry asks again.

    An asked agent whose approvals were answered ends with it, and goes on with it: its answers are not spent.
    """
    calls = ToolCall.objects.using(pen.session.alias).filter(thread=pen.locked.id, run=run.id)
    answered = Q(status=ToolCall.Status.READY, child_run__status__in=Run.UNFINISHED)
    calls.filter(Q(status__in=("running", "waiting")) | answered).update(status=ToolCall.Status.UNKNOWN)
    if pen.locked.pending:
        awaiting(pen.session, pen.locked).update(status=ToolCall.Status.VOID)
        pen.thread(pending=0)


def wake(pen: Pen) -> int:
    """Calls that wait for a run which waits no more are ready to go on with it; returns how many they are."""
    locked = pen.locked
    rested = ToolCall.objects.using(pen.session.alias).rested().filter(thread=locked.id, run=locked.current_run_id)
    calls = list(rested.values_list("pk", flat=True))
    for pk in calls:
        pen.update(ToolCall, pk, status=ToolCall.Status.READY)
    if calls:
        locked.pending = max(0, locked.pending - len(calls))
        pen.thread(pending=locked.pending)
    return len(calls)


def leave_open_calls(pen: Pen) -> None:
    """Close the calls that a new turn leaves behind, so that what the model is given stays valid."""
    conversation = Conversation.read(pen.tail)
    answer = conversation.last_answer
    run = pen.session.find(Run, answer.run_id) if answer else None
    for call, row, text in conversation.closings():
        block = transcript.result_block(call["id"], call["name"], text, is_error=True)
        metadata = memories.of_run(pen.session.alias, row.child_run_id) if row else None
        agent = answer.agent if answer else ""  # a hand-over has given the run another one
        message = pen.message("tool", [block], run_id=run.id if run else None, agent=agent, metadata=metadata)
        values = {"message_id": message.id, "tool_call_id": row.id if row else None}
        pen.event("tool_error", run, parent=run.id if run else None, agent=agent, **values)
