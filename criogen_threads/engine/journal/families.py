"""A conversation with those of the agents that were asked in it, and in theirs.

Two laws keep them from getting in each other's way. A chain of runs is run from the top, by one process: a caller's
thread is taken before that of the agent it asks, and let go after it. And a transaction locks one thread, or several
in the order of their ids before it writes (``lock_all``); a thread that it makes counts as the last of them.

Everything else is derived. A caller waits for a run; when that waits no more, because its approvals are answered or
because it has ended, the caller is woken, and theirs, up to the top, which is then due. An unfinished run whose caller
has ended ends too. Each of these is a write of its own, and whoever finds it undone does it: ``settle``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from criogen_threads import errors
from criogen_threads.engine.journal import delegations, posts
from criogen_threads.engine.journal.leaving import wake as wake_calls
from criogen_threads.engine.journal.pen import Pen, lock
from criogen_threads.engine.journal.saves import append_failure
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.journal.writing import write
from criogen_threads.ids import new_id
from criogen_threads.models import Run, Thread, ToolCall

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.models.run import RunQuerySet

ENDED = (Run.Status.COMPLETED, Run.Status.FAILED)


def top(thread_id: UUID) -> Thread | None:
    """The thread that people speak in, from any of those below it."""
    threads = Thread.objects.using(database())
    thread = threads.filter(pk=thread_id).first()
    while thread is not None and thread.parent_id is not None:
        thread = threads.filter(pk=thread.parent_id).first()
    return thread


def awake(key: str) -> str:
    """Settle the family of a thread; the key of the thread at its top, which may then be due."""
    found = Thread.objects.using(database()).filter(key=key).values_list("pk", flat=True).first()
    first = top(found) if found else None
    if first is None:
        return key
    settle(first.pk)
    return first.key


def settle(thread_id: UUID) -> None:
    """Bring a thread and those below it up to date, the lowest first: what is overdue counts as expired."""
    for key in ToolCall.objects.using(database()).expired().filter(thread=thread_id).values_list("thread__key")[:1]:
        posts.expire(*key)
    for run in orphans().filter(parent_run__thread=thread_id).select_related("parent_run"):
        leave(run.thread_id, run.pk, str(run.parent_run.error_code), new_id())
        settle(run.thread_id)
    waiting = ToolCall.objects.using(database()).waiting().filter(thread=thread_id)
    for call in waiting.select_related("run", "child_run"):
        if call.child_run is None:
            _reopen(call)
        if below := _thread_below(call):
            settle(below)
    if waiting.rested().exists():
        wake(thread_id)


def _reopen(call: ToolCall) -> None:
    """A rewind went back to where an agent waited: it waits there again."""
    if call.child_checkpoint_id is not None and call.child_run_id is not None:
        agent = call.effective_arguments["agent"]
        wish = delegations.Delegation(
            call.thread_id, call.run, call.pk, call.child_run_id, agent, [], checkpoint=call.child_checkpoint_id
        )
        delegations.reopen(wish)


def _thread_below(call: ToolCall) -> UUID | None:
    found = Run.objects.using(database()).filter(pk__in=[call.child_run_id])
    return found.values_list("thread", flat=True).first()


@write
def wake(session: Session, thread_id: UUID) -> None:
    """Calls that wait for a run which waits no more are ready; the last one makes a suspended thread due."""
    locked = lock(session, thread_id)
    if locked is not None and wake_calls(pen := Pen(session, locked)):
        pen.write()


def orphans() -> RunQuerySet:
    """Unfinished runs whose caller has ended."""
    runs = Run.objects.using(database()).filter(status__in=Run.UNFINISHED, parent_run__isnull=False)
    return runs.filter(parent_run__status__in=ENDED)


@write
def leave(session: Session, thread_id: UUID, run_id: UUID, code: str, checkpoint_id: UUID) -> None:
    """End a run whose caller has ended, and was not taken up again: cancelled like it, or left behind by it.

    Args:
        code: Why the caller failed; "" when it completed.
    """
    locked = lock(session, thread_id)
    run = session.find(Run, run_id, status__in=Run.UNFINISHED, parent_run__status__in=ENDED) if locked else None
    if run is None or locked is None or locked.current_run_id != run_id:
        return
    pen = Pen(session, locked)
    if locked.held:
        pen.thread(cancel_mark=run_id)
    else:
        cancelled = code == errors.RunCancelledError.code
        append_failure(pen, run, errors.RunCancelledError() if cancelled else errors.RunAbandonedError(), checkpoint_id)
    pen.write()


def unsettled() -> list[UUID]:
    """The threads in which something is to be settled that nobody has done."""
    sleeping = ToolCall.objects.using(database()).rested().values_list("thread", flat=True)
    left = orphans().values_list("parent_run__thread", flat=True)
    return list(dict.fromkeys([*sleeping, *left]))
