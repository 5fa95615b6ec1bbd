"""Saves: what the holder of a thread writes. One transaction, one checkpoint, version + 1.

Each locks the thread row, checks holder, fence, current run and cancel mark, appends, and moves the head.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from criogen_threads.engine.journal.calls import add_calls, note_call, note_start
from criogen_threads.engine.journal.holding import hold, save
from criogen_threads.engine.journal.leaving import awaiting, fail_run, leave_calls, wake
from criogen_threads.engine.journal.pen import Pen, lock
from criogen_threads.engine.journal.writing import write
from criogen_threads.ids import new_id
from criogen_threads.models import Run, Thread, ToolCall
from criogen_threads.signals import run_finished, run_suspended

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from criogen_threads import errors
    from criogen_threads.backends.base import ModelAnswer, Usage
    from criogen_threads.engine.journal.calls import Planned
    from criogen_threads.engine.journal.pen import Locked, Saved
    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.engine.journal.takes import Lease
    from criogen_threads.models import Message
    from criogen_threads.models.tool_call import ToolCallQuerySet


@dataclass(frozen=True, slots=True)
class Result:
    """How one tool call ended."""

    call: ToolCall
    block: dict[str, Any]
    status: str
    start: UUID | None = None  # the event of its start, where that was saved before
    ran: bool = True  # False: settled without running
    metadata: dict[str, Any] | None = None  # of the result's message
    message_id: UUID = field(default_factory=new_id)


@write
def answer(
    session: Session,
    lease: Lease,
    answer: ModelAnswer,
    calls: Sequence[Planned],
    usage: dict[str, Any],
    *,
    finishes: bool,
    message_id: UUID,
    checkpoint_id: UUID,
    metadata: dict[str, Any] | None = None,
) -> Saved:
    """Save an answer of the model and its calls; one that finishes the run frees the thread as well.

    Args:
        calls: A row for each tool call; those that start at once are already running.
        usage: The run's usage, this request included.
        metadata: Of the answer's message.

    Raises:
        As ``hold``.
    """
    locked = hold(session, lease)
    run, pen = lease.run, Pen(session, locked)
    pen.message("assistant", answer.content, id=message_id, run_id=run.id, agent=run.agent, metadata=metadata)
    status = "completed" if finishes else "in_progress"
    pen.checkpoint("step", status, id=checkpoint_id, run_id=run.id, step=(locked.step or 0) + 1)
    pen.event("message", run, parent=run.id, message_id=message_id)
    add_calls(pen, run, calls)
    pen.thread(tokens=locked.tokens + answer.usage.input_tokens + answer.usage.output_tokens)
    pen.update(Run, run.id, usage=usage, **(_completed(pen, run, message_id) if finishes else {}))
    return save(pen, lease)


def _completed(pen: Pen, run: Run, message_id: UUID | None) -> dict[str, Any]:
    """The run ends well: its last events, the thread freed. Returns what the run's row says then."""
    locked = pen.locked
    pen.event("agent_complete", run, parent=run.id, message_id=message_id)
    pen.event("run_complete", run, parent=run.id)
    free(pen, Thread.Status.IDLE)
    pen.tell(run_finished, run_id=run.id, agent=run.agent, status="completed", error_code="")
    return {"status": Run.Status.COMPLETED, "completed_at": locked.now}


def free(pen: Pen, status: str) -> None:
    """Let the thread go."""
    pen.thread(status=status, holder=None, cancel_mark=None)


@write
def summary(session: Session, lease: Lease, message: Message, used: Usage, usage: dict[str, Any]) -> Saved:
    """Save a summary beside the conversation, which stays as it is. No checkpoint: nothing was said.

    Args:
        message: Its parent is the last message that it covers.
        used: What it cost.
        usage: The run's usage, this request included.
    """
    locked = hold(session, lease)
    run, pen = lease.run, Pen(session, locked)
    message.created_at = locked.now
    session.insert([message])
    pen.event("summary", run, parent=run.id, message_id=message.pk)
    pen.thread(tokens=locked.tokens + used.input_tokens + used.output_tokens)
    pen.update(Run, run.id, usage=usage)
    return save(pen, lease)


@write
def plan(session: Session, lease: Lease, calls: Sequence[Planned]) -> Saved:
    """Give a row to calls that a fork or a crash left without one. No checkpoint: nothing new was said."""
    pen = Pen(session, hold(session, lease))
    add_calls(pen, lease.run, calls)
    return save(pen, lease)


@write
def begin_calls(session: Session, lease: Lease, calls: Sequence[ToolCall]) -> Saved:
    """Mark calls as running before they run, in a commit of its own: after a crash their outcome is unknown."""
    locked = hold(session, lease)
    pen = Pen(session, locked)
    for call in calls:
        goes_on = call.child_run_id is not None and call.started_at is not None  # the agent was asked already
        call.status = ToolCall.Status.RUNNING
        call.started_at = call.started_at if goes_on else locked.now
        pen.update(ToolCall, call.id, status=call.status, started_at=call.started_at)
        if not goes_on:
            note_start(pen, call, lease.run)
    return save(pen, lease)


@write
def wait(session: Session, lease: Lease, call: ToolCall) -> Saved:
    """Note that an asked agent's run waits for people. No checkpoint: nothing was said."""
    locked = hold(session, lease)
    pen = Pen(session, locked)
    pen.update(ToolCall, call.id, status=ToolCall.Status.WAITING)
    pen.thread(pending=locked.pending + 1)
    return save(pen, lease)


@write
def results(session: Session, lease: Lease, results: Sequence[Result], checkpoint_id: UUID) -> Saved:
    """Save results of tool calls as they arrive: one message each, one checkpoint for all that are given.

    Raises:
        As ``hold``: a result that comes after a cancel or a take-over stays out.
    """
    return append_results(session, hold(session, lease), lease, results, checkpoint_id)


def append_results(
    session: Session, locked: Locked, lease: Lease, results: Sequence[Result], checkpoint_id: UUID
) -> Saved:
    """Below the lock: the messages, the calls' ends, the events and the checkpoint."""
    pen = Pen(session, locked)
    _put_results(pen, lease.run, results)
    pen.checkpoint("step", "in_progress", id=checkpoint_id, run_id=lease.run.id, step=locked.step or 0)
    return pen.write()


def _put_results(pen: Pen, run: Run, results: Sequence[Result]) -> None:
    now = pen.locked.now
    for result in results:
        call = result.call
        start = result.start
        if result.ran and start is None:
            start = note_start(pen, call, run).id
        pen.message(
            "tool", [result.block], id=result.message_id, run_id=run.id, agent=run.agent, metadata=result.metadata
        )
        pen.update(
            ToolCall, call.id, status=result.status, result=result.message_id, finished_at=now,
            started_at=call.started_at or (now if result.ran else None),
        )  # fmt: skip
        end = "tool_complete" if result.status == ToolCall.Status.DONE else "tool_error"
        note_call(pen, end, call, run, parent=start, message_id=result.message_id)


@write
def hand_over(
    session: Session, lease: Lease, results: Sequence[Result], agent: str, usage: dict[str, Any], checkpoint_id: UUID
) -> Saved:
    """Save that the run, and the thread from now on, go on with another agent.

    Args:
        results: Of the calls that asked for it.
        usage: The run's usage, told apart by agent from here on.
    """
    locked = hold(session, lease)
    run, pen = lease.run, Pen(session, locked)
    _put_results(pen, run, results)
    pen.thread(agent=agent)
    pen.update(Run, run.id, agent=agent, usage=usage)
    pen.event("hand_over", run, parent=run.id, details={"from": run.agent, "to": agent})
    pen.checkpoint("step", "in_progress", id=checkpoint_id, run_id=run.id, step=locked.step or 0)
    return save(pen, lease)


@write
def suspend(session: Session, lease: Lease, checkpoint_id: UUID, behind: Collection[UUID] = ()) -> Saved | None:
    """Save that only people are waited for, and free the thread.

    Looks at what is waited for once more below the lock: None, and the thread stays held, when an approval was
    answered meanwhile, or an asked agent's run waits no more.

    Args:
        behind: Calls that are ready, and go on only after those that wait.
    """
    locked = hold(session, lease)
    run, pen = lease.run, Pen(session, locked)
    if wake(pen):
        pen.write()
        return None
    open_calls = ToolCall.objects.using(session.alias).filter(thread=locked.id, run=run.id, result=None)
    answered = open_calls.filter(status__in=("ready", "rejected", "expired"))
    if answered.exclude(pk__in=behind).exists():
        return None
    delegated = _where_they_stand(open_calls.waiting())
    pen.checkpoint(
        "suspend", "suspended", id=checkpoint_id, run_id=run.id, step=locked.step or 0, delegated=delegated or None
    )
    pen.update(Run, run.id, status=Run.Status.REQUIRES_ACTION)
    pending = awaiting(session, locked).count() + len(delegated)
    pen.thread(pending=pending)
    free(pen, Thread.Status.SUSPENDED)
    pen.tell(run_suspended, run_id=run.id, agent=run.agent, pending=pending)
    return save(pen, lease)


def _where_they_stand(waiting: ToolCallQuerySet) -> dict[str, str]:
    """By the index of the call, the checkpoint at which an asked agent waits: a rewind goes back there."""
    heads = waiting.values_list("index", "child_run__thread__head")
    return {str(index): str(head) for index, head in heads}


@write
def finish(session: Session, lease: Lease, checkpoint_id: UUID) -> Saved:
    """Complete a run whose last message already is its answer."""
    locked = hold(session, lease)
    run, pen = lease.run, Pen(session, locked)
    pen.checkpoint("step", "completed", id=checkpoint_id, run_id=run.id, step=locked.step or 0)
    pen.update(Run, run.id, **_completed(pen, run, locked.message_id))
    return save(pen, lease)


@write
def fail(session: Session, lease: Lease, error: errors.CriogenError, checkpoint_id: UUID, partial: str = "") -> Saved:
    """Save that the run ended here, with the code of why; ``retry()`` can go on.

    Open calls stay open: those that had started are unknown, approvals that waited are void.

    Args:
        partial: Text of the answer that was under way: shown as partial, never given to the model.

    Raises:
        LeaseLostError: ``lease_lost``.
    """
    locked = hold(session, lease, heed_cancel=False)
    pen = Pen(session, locked)
    append_failure(pen, lease.run, error, checkpoint_id, partial)
    return save(pen, lease)


def append_failure(pen: Pen, run: Run, error: errors.CriogenError, checkpoint_id: UUID, partial: str = "") -> None:
    """Below the lock: the run's end, its checkpoint and its event; the thread is freed."""
    leave_calls(pen, run)
    Run.check_transition(run.status, Run.Status.FAILED)
    pen.checkpoint("failure", "failed", id=checkpoint_id, run_id=run.id, step=pen.locked.step or 0)
    fail_run(pen, run, error, parent=run.id, partial=partial)
    free(pen, Thread.Status.FAILED)


@write
def release(session: Session, thread_id: UUID, worker: UUID, fence: int) -> bool:
    """Let a thread go without saying anything: its run is interrupted. Only under one's own fence."""
    locked = lock(session, thread_id)
    if locked is None or (locked.holder, locked.fence) != (worker, fence):
        return False
    session.update(Thread, thread_id, holder=None)
    return True
