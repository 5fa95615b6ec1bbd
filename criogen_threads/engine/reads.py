"""What is read of a thread, each function one short visit to the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Case, Count, Exists, OuterRef, When

from criogen_threads import errors
from criogen_threads.engine import transcript, trees
from criogen_threads.engine.journal import branches, families, locks, trimming, usages
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.views import (
    checkpoint_views,
    event_view,
    message_view,
    message_views,
    milliseconds,
    run_view,
)
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall, Worker

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID


def thread(key: str) -> Thread | None:
    return Thread.objects.using(database()).filter(key=key).select_related("head", "current_run").first()


def messages(key: str, last: int | None = None) -> list[dict[str, Any]]:
    """The conversation, oldest first; the ``last`` of it."""
    return message_views(branches.values(Message, key, last)[::-1])


def messages_of(thread_id: UUID) -> list[dict[str, Any]]:
    """The same of the thread with this id: of no other one that has its key by now."""
    found = Thread.objects.using(database()).filter(pk=thread_id).select_related("head").first()
    tail = found.head.message_id if found and found.head else None
    return [message_view(message) for message in branches.messages(tail)]


def old_messages(key: str, keep: int) -> tuple[list[dict[str, Any]], UUID | None]:
    """The messages before the last ``keep`` turns, and the id of the first one behind them; none where all stay.

    Raises:
        ThreadNotFoundError: ``thread_not_found``.
        ThreadDelegatedError: ``thread_delegated``.
    """
    found = thread(key)
    if found is None:
        raise errors.ThreadNotFoundError
    if found.parent_id is not None:
        raise errors.ThreadDelegatedError
    old, first = trimming.old(found.head.message_id if found.head else None, keep)
    return [message_view(message) for message in old], first.pk if first else None


def history(key: str, limit: int) -> list[dict[str, Any]]:
    """The checkpoints from the head back, newest first."""
    return checkpoint_views(branches.values(Checkpoint, key, limit))


def pending(thread_id: UUID, run_id: UUID | None) -> list[ToolCall]:
    """The open approvals of a run and of those that it asked for, in the order in which they were asked for."""
    open_calls = ToolCall.objects.using(database()).filter(thread=thread_id, run=run_id)
    waiting = open_calls.filter(status__in=("awaiting_approval", "waiting")).order_by("step", "index")
    found = []
    for call in waiting.select_related("thread", "message", "run__thread", "run__parent_run", "child_run"):
        if call.status == ToolCall.Status.AWAITING_APPROVAL:
            found.append(call)
        elif call.child_run is not None:
            found += pending(call.child_run.thread_id, call.child_run_id)
    return found


def sleeps(found: Run, standing: Thread) -> bool:
    """Whether a run that requires action waits for people, and nothing of it or below it goes on without them."""
    if not standing.pending:
        first = families.top(standing.pk) if standing.parent_id else None  # answered, and others above are not
        return first is not None and first.status == Thread.Status.SUSPENDED and first.pending > 0
    waiting = ToolCall.objects.using(database()).waiting().filter(thread=standing.pk, run=found.pk)
    below = [call.child_run for call in waiting.select_related("child_run", "child_run__thread")]
    return not any(run is None or not rests(run.pk) for run in below)


def is_forsaken(standing: Thread) -> bool:
    """Whether a run that another one asked for stands still because the process above it is dead."""
    first = families.top(standing.pk) if standing.parent_id else None
    return first is not None and Thread.objects.using(database()).interrupted().filter(pk=first.pk).exists()


def answer_of(found: Run) -> str:
    """The text of a run's last answer."""
    own = Message.objects.using(database()).filter(thread=found.thread_id, run=found.pk, role="assistant")
    last = own.order_by("-position").first()
    return transcript.text_of(last.content) if last else ""


def calls(thread_id: UUID, ids: Iterable[UUID | None]) -> list[ToolCall]:
    """Some tool calls of a thread and of those of the agents that were asked below it, with threads and runs."""
    found = ToolCall.objects.using(database()).filter(pk__in=[pk for pk in ids if pk])
    related = list(found.select_related("thread", "message", "run", "run__parent_run"))
    if all(call.thread_id == thread_id for call in related):
        return related
    family = locks.family(database(), thread_id)
    return [call for call in related if call.thread_id in family]


def calls_left_behind(thread_id: UUID, head: UUID | None, target: UUID | None) -> list[ToolCall]:
    """The calls that had started and whose asking or result is on the head's branch, but not on the target's.

    One that has no result anywhere is left behind too: it may have taken effect.
    """
    branch = set(branches.ids(Message, head))
    left = branch - set(branches.ids(Message, target))
    calls = ToolCall.objects.using(database())
    started = calls.filter(thread=thread_id, started_at__isnull=False)
    links: Iterable[tuple[UUID, UUID, UUID | None]] = started.values_list("pk", "message_id", "result_id")
    behind = [pk for pk, asking, result in links if {asking, result} & left or (result is None and asking in branch)]
    found = list(calls.filter(pk__in=behind).select_related("run", "message").order_by("pk"))
    return [*found, *_calls_of_asked(found)]


def _calls_of_asked(found: Iterable[ToolCall]) -> list[ToolCall]:
    """The calls that had started of the agents that these calls asked, and of those that they asked."""
    asked = {call.child_run_id for call in found if call.child_run_id}
    if not asked:
        return []
    alias = database()
    runs = [*asked, *(run.pk for _, run in usages.below(alias, asked))]
    threads = Run.objects.using(alias).filter(pk__in=runs).values("thread")
    started = ToolCall.objects.using(alias).filter(thread__in=threads, run__in=runs, started_at__isnull=False)
    return list(started.select_related("run", "message"))


def last_answer(thread_id: UUID, run_id: UUID) -> dict[str, Any]:
    """Who answered the last approval of a run, and when; empty where nobody has."""
    answered = ToolCall.objects.using(database()).filter(thread=thread_id, run=run_id, decided_at__isnull=False)
    call = answered.select_related("decided_by").order_by("-decided_at").first()
    if call is None or call.decided_at is None:
        return {}
    by = call.decided_by.get_username() if call.decided_by else None
    return {"decided_by": by, "decided_at": call.decided_at.isoformat()}


def is_due(key: str) -> bool:
    """Whether the thread's run has all its answers, and nobody has taken it up."""
    return Thread.objects.using(database()).due().filter(key=key).exists()


def is_held(thread_id: UUID) -> bool:
    """Whether a living process works on the thread."""
    return Thread.objects.using(database()).held().filter(pk=thread_id).exists()


def rests(run_id: UUID | str) -> bool:
    """Whether a run has ended, waits for a person, is gone, or has lost its process; else somebody sees to it."""
    found = run_with_thread(run_id)
    if found is None:
        return True
    row, thread, held = found
    match row.status:
        case Run.Status.QUEUED:
            return False
        case Run.Status.IN_PROGRESS:
            return not held and row.waiter is None  # an accepted retry is about to be taken up
        case Run.Status.REQUIRES_ACTION:
            return sleeps(row, thread)
    return True


def answer(key: str, message_id: UUID) -> Message | None:
    """An answer that a model gave in a thread; None for any other message."""
    own = Message.objects.using(database()).filter(thread__key=key, pk=message_id, role=Message.Role.ASSISTANT)
    return own.first()


def run_of(key: str, run_id: UUID) -> Run | None:
    """The row of a run of a thread."""
    return Run.objects.using(database()).filter(thread__key=key, pk=run_id).first()


def run(key: str, run_id: UUID) -> dict[str, Any] | None:
    """One run of a thread; None for an unknown one."""
    found = Run.objects.using(database()).filter(thread__key=key, pk=run_id).first()
    return None if found is None else _run_view(found)


def current_run(key: str) -> dict[str, Any] | None:
    """The run that the thread stands at."""
    found = thread(key)
    return None if found is None or found.current_run is None else _run_view(found.current_run)


def _run_view(found: Run) -> dict[str, Any]:
    return run_views([found])[0]


def run_views(found: Iterable[Run]) -> list[dict[str, Any]]:
    """Runs with the approvals that they wait for, and with what they and the runs that they asked for cost."""
    found = list(found)
    usage = usages.totals(database(), found)
    return [run_view(each, _required_action(each), usage[each.pk]) for each in found]


def _required_action(found: Run) -> list[dict[str, Any]] | None:
    if found.status != Run.Status.REQUIRES_ACTION:
        return None
    return trees.approval_views(pending(found.thread_id, found.pk))


def runs(key: str, last: int | None = None) -> list[dict[str, Any]]:
    """The runs in their order of arrival; the ``last`` of them."""
    found = Run.objects.using(database()).filter(thread__key=key).order_by("-number")
    return run_views(list(found if last is None else found[:last])[::-1])


def events(key: str, after: int = 0, limit: int | None = None, **filters: Any) -> list[dict[str, Any]]:
    """The events after a number, in order, all filters and-ed; the first ``limit`` of them."""
    return _events(after, limit, thread__key=key, **filters)


def events_after(thread_id: UUID, seq: int, limit: int, **filters: Any) -> list[dict[str, Any]]:
    """The same of the thread with this id: of no other one that has its key by now."""
    return _events(seq, limit, thread=thread_id, **filters)


def events_of_turn(run: Run, limit: int) -> list[dict[str, Any]]:
    """The first events of a run and of those that it asked for, those of each thread in order, the run's own first."""
    alias = database()
    ids = [run.pk, *(each.pk for _, each in usages.below(alias, [run.pk]))]
    threads = Run.objects.using(alias).filter(pk__in=ids).values("thread")
    found = Event.objects.using(alias).filter(thread__in=threads, run__in=ids)
    own_first = found.order_by(Case(When(thread=run.thread_id, then=0), default=1), "thread", "seq")
    return _event_views(list(own_first[:limit]))


def _events(after: int, limit: int | None, **filters: Any) -> list[dict[str, Any]]:
    found = Event.objects.using(database()).filter(seq__gt=after, **filters)
    return _event_views(list(found.order_by("seq")[:limit]))


def _event_views(found: list[Event]) -> list[dict[str, Any]]:
    """Events with what they refer to; each row that is referred to is read once, though many events may."""
    alias = database()
    said = Message.objects.using(alias).in_bulk({e.message_id for e in found if e.message_id})
    calls = ToolCall.objects.using(alias).in_bulk({e.tool_call_id for e in found if e.tool_call_id})
    return [event_view(e, said.get(e.message_id), calls.get(e.tool_call_id)) for e in found]


def event_chain(key: str, event_id: UUID) -> list[dict[str, Any]]:
    """An event and those above it, the root first; empty for one that the thread does not have.

    What an agent did that was asked hangs below the call that asked it, in the thread of the caller.
    """
    chain: list[Event] = []
    every = Event.objects.using(database())
    event = every.filter(thread__key=key, pk=event_id).first()
    while event is not None and event not in chain:
        chain.insert(0, event)
        event = every.filter(pk=event.parent_id).first() if event.parent_id else None
    return _event_views(chain)


def statistics(key: str) -> dict[str, Any]:
    """Message count, last activity, the current run's status, and how often each tool was used."""
    found = thread(key)
    if found is None:
        return {"message_count": 0, "last_activity_ms": None, "current_run_status": None, "tool_usage": {}}
    tail = branches.ancestors(Message, found.head.message_id if found.head else None, 1)
    completed = Event.objects.using(database()).filter(thread=found.pk, type="tool_complete")
    names = ToolCall.objects.using(database()).filter(pk__in=completed.values("tool_call"))
    usage = names.values_list("name").annotate(times=Count("pk")).order_by("name")
    return {
        "message_count": tail[0].position - _cut_off(found.pk) if tail else 0,
        "last_activity_ms": milliseconds(found.last_message_at),
        "current_run_status": found.current_run.status if found.current_run else None,
        "tool_usage": dict(usage),
    }


def _cut_off(thread_id: UUID) -> int:
    """How many messages of a thread's beginning are gone."""
    cuts = Checkpoint.objects.using(database()).filter(thread=thread_id, cut=True, message__isnull=False)
    first = cuts.order_by("version").values_list("message__position", flat=True).first()
    return first - 1 if first else 0


def run_with_thread(run_id: UUID | str) -> tuple[Run, Thread, bool] | None:
    """A run with its thread, and whether a living process holds that; None when the run is gone."""
    holder = Worker.objects.alive().filter(pk=OuterRef("thread__holder"))
    runs = Run.objects.using(database()).filter(pk=run_id).select_related("thread")
    # In one statement: between two of them the run may end, and would look as if its process had died.
    found = runs.annotate(held=Exists(holder)).first()
    return None if found is None else (found, found.thread, found.held)  # type: ignore[attr-defined]


def said(found: Run) -> list[Message]:
    """The messages of a run."""
    own = Message.objects.using(database()).filter(thread=found.thread_id, run=found.pk)
    return [message for message in own.order_by("position") if not message.is_beside]
