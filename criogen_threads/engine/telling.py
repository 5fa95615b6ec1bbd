"""What a feed is made of: events with the rows that they speak of, and where threads stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q

from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.views import run_view
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall, Worker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

WITH_RUN = ("run_start", "run_complete", "error")


@dataclass(frozen=True, slots=True)
class Told:
    """One event, with the rows that it speaks of."""

    event: Event
    message: Message | None = None
    call: ToolCall | None = None
    run: Run | None = None
    checkpoint: Checkpoint | None = None  # the new head of a rewind


def events_after(thread_id: UUID, seq: int, limit: int) -> list[Told]:
    """The next ``limit`` events after a number."""
    events = Event.objects.using(database()).filter(thread=thread_id, seq__gt=seq)
    return _told(list(events.order_by("seq")[:limit]))


def events_since(places: Mapping[UUID, int]) -> dict[UUID, list[Told]]:
    """Of each of these threads the events after its number, in order."""
    found: dict[UUID, list[Told]] = {thread_id: [] for thread_id in places}
    if places:
        wanted = reduce(or_, (Q(thread=thread_id, seq__gt=seq) for thread_id, seq in places.items()))
        for told in _told(list(Event.objects.using(database()).filter(wanted).order_by("seq"))):
            found[told.event.thread_id].append(told)
    return found


def _told(found: list[Event]) -> list[Told]:
    """Events with the rows that they refer to, each of which is read once."""
    alias = database()
    messages = Message.objects.using(alias).in_bulk({e.message_id for e in found if e.message_id})
    calls = ToolCall.objects.using(alias).in_bulk({e.tool_call_id for e in found if e.tool_call_id})
    runs = Run.objects.using(alias).in_bulk({e.run_id for e in found if e.run_id and e.type in WITH_RUN})
    heads = Checkpoint.objects.using(alias).in_bulk({_head(e) for e in found if e.type == "checkpoint_fork"})
    return [
        Told(
            event,
            messages.get(event.message_id) if event.message_id else None,
            calls.get(event.tool_call_id) if event.tool_call_id else None,
            runs.get(event.run_id) if event.run_id else None,
            heads.get(_head(event)) if event.type == "checkpoint_fork" else None,
        )
        for event in found
    ]


def _head(event: Event) -> UUID:
    return UUID(event.details["to"])


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a thread stands: everything in one row, so that it belongs to exactly this ``seq``."""

    thread_id: UUID
    key: str
    seq: int
    status: str
    held: bool
    pending: int
    run_id: UUID | None
    holder: UUID | None
    agent: str | None  # of the current run

    @property
    def state(self) -> str:
        """ "idle", "running", "interrupted" (its process died), "suspended" (people are waited for) or "failed"."""
        if self.status == Thread.Status.RUNNING and not self.held:
            return "interrupted"
        if self.status == Thread.Status.SUSPENDED and not self.pending:
            return "running"  # answered, and about to be taken up
        return self.status


def standings(keys: Iterable[str]) -> dict[str, Standing]:
    """Where these threads stand, in one query; threads that do not exist are left out."""
    holder = Worker.objects.alive().filter(pk=OuterRef("holder"))
    held = ExpressionWrapper(Q(holder__isnull=False) & Exists(holder), output_field=BooleanField())
    threads = Thread.objects.using(database()).filter(key__in=list(keys)).annotate(held=held)
    columns = ("pk", "key", "event_seq", "status", "held", "pending", "current_run_id", "holder", "current_run__agent")
    return {row[1]: Standing(*row) for row in threads.values_list(*columns)}


def stored(message_ids: Collection[str]) -> set[str]:
    """Those of these messages that are committed."""
    if not message_ids:
        return set()
    return {str(pk) for pk in Message.objects.using(database()).filter(pk__in=message_ids).values_list("pk", flat=True)}


def unfinished_at(thread_id: UUID, seq: int) -> tuple[UUID, int] | None:
    """The run that had begun and not ended when the thread's events stood at ``seq``, and its attempt."""
    marks = Event.objects.using(database()).filter(thread=thread_id, seq__lte=seq, type__in=WITH_RUN)
    last = marks.order_by("-seq").first()
    if last is None or last.type != "run_start" or last.run_id is None:
        return None
    return last.run_id, (last.details or {}).get("attempt", 1)


def in_line(thread_id: UUID) -> list[dict[str, Any]]:
    """The queued runs of a thread, first in line first."""
    return [run_view(run) for run in Run.objects.using(database()).queued().filter(thread=thread_id)]


def run_of_client(thread_id: UUID, client_id: str) -> UUID | None:
    """The run that a client began in a thread under this id of its own."""
    runs = Run.objects.using(database()).filter(thread=thread_id, client_id=client_id)
    return runs.values_list("pk", flat=True).first()


def is_at_rest(key: str, seq: int) -> bool:
    """Whether nothing is under way in a thread, nothing waits in line, and ``seq`` is its newest event.

    The line is read first: a run that left it meanwhile is then seen where it stands.
    """
    queued = Run.objects.using(database()).filter(thread__key=key, status=Run.Status.QUEUED).exists()
    standing = standings([key]).get(key)
    if standing is None:
        return True
    return not queued and standing.seq == seq and standing.state in ("idle", "failed")
