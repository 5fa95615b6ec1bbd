"""What has to be true of the rows after a crash and its recovery."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from criogen_threads.engine.journal import branches
from criogen_threads.engine.journal.locks import family
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from project.desk.models import CallBack
from tests.crash import actors, chain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

ON_CRASH = {"plain": "rerun", "pay": "ask"}


@dataclass(frozen=True)
class Snapshot:
    """The rows and the effects as a dead process left them."""

    epoch: UUID | None
    said: list[UUID]  # the messages of the conversation
    forks: int
    calls: dict[str, ToolCall]  # the newest try of each call, by its idempotency key
    effects: Counter[str]

    @classmethod
    def take(cls, key: str, ledger: actors.Ledger) -> Snapshot:
        thread = Thread.objects.filter(key=key).select_related("head").first()
        said = branches.messages(thread.head.message_id) if thread and thread.head else []
        forks = forks_of(thread) if thread else 0
        return cls(thread.pk if thread else None, [m.pk for m in said], forks, newest_calls(key), ledger.effects)


def forks_of(thread: Thread) -> int:
    return Checkpoint.objects.filter(thread=thread, source="fork").count()


def family_of(key: str) -> list[UUID]:
    """A thread, and those of the agents that were asked in it."""
    first = Thread.objects.filter(key=key).first()
    return family("default", first.pk) if first else []


def newest_calls(key: str) -> dict[str, ToolCall]:
    rows = ToolCall.objects.filter(thread__in=family_of(key)).order_by("try_number")
    return {f"{row.run_id}:{row.step}:{row.index}": row for row in rows}


def check(key: str, ledger: actors.Ledger, snapshot: Snapshot, on_crash: str) -> None:
    """Everything that a recovery promises."""
    assert not ledger.refused, ledger.refused
    thread = Thread.objects.select_related("head").get(key=key)
    check_thread(thread)
    said = branches.messages(thread.head.message_id)
    check_conversation(said)
    if (thread.pk, forks_of(thread)) == (snapshot.epoch, snapshot.forks):
        assert [m.pk for m in said][: len(snapshot.said)] == snapshot.said, "a message was lost"
    check_effects(key, ledger, snapshot, on_crash)


def check_family(key: str, ledger: actors.Ledger, snapshot: Snapshot, on_crash: str) -> None:
    """The same of a conversation and those of the agents that were asked in it; each run below its caller."""
    assert not ledger.refused, ledger.refused
    threads = list(Thread.objects.filter(pk__in=family_of(key)).select_related("head"))
    assert sorted(thread.agent for thread in threads) == sorted(chain.CHAIN), "not one thread for each agent"
    for thread in threads:
        check_thread(thread)
        assert thread.head
        said = [
            {"role": message.role, "content": message.content} for message in branches.messages(thread.head.message_id)
        ]
        assert said == chain.CONVERSATIONS[thread.agent], f"{thread.agent} said something else"
    first = Thread.objects.select_related("head").get(key=key)
    if (first.pk, forks_of(first)) == (snapshot.epoch, snapshot.forks) and first.head:
        said_first = [message.pk for message in branches.messages(first.head.message_id)]
        assert said_first[: len(snapshot.said)] == snapshot.said, "a message was lost"
    check_effects(key, ledger, snapshot, on_crash)
    check_one_tree(family_of(key))


def check_one_tree(threads: list[UUID]) -> None:
    """Every run but those that people began has a caller, and every event hangs below the start of its turn, but for
    those that are of a thread and of no turn."""
    runs = {run.pk: run for run in Run.objects.filter(thread__in=threads)}
    calls = {call.child_run_id: call for call in ToolCall.objects.filter(thread__in=threads, child_run__isnull=False)}
    events = {event.pk: event for event in Event.objects.filter(thread__in=threads)}
    for event in events.values():
        root = event
        while root.parent_id is not None:
            root = events[root.parent_id]
        assert root.type in ("run_start", "agent_start", "checkpoint_fork", "asked_decided"), root.type
        assert root.run_id is None or runs[root.run_id].parent_run_id is None, "what an asked agent did hangs nowhere"
    for run in runs.values():
        if run.parent_run_id is not None:
            assert calls[run.pk].run_id == run.parent_run_id
            assert events[run.pk].parent_id == calls[run.pk].pk


def check_thread(thread: Thread) -> None:
    """At rest; numbers without a gap; one end for each beginning."""
    assert (thread.status, thread.holder, thread.pending, thread.cancel_mark) == ("idle", None, 0, None)
    versions = list(thread.checkpoints.order_by("version").values_list("version", flat=True))
    assert versions == list(range(1, thread.version + 1))
    events = list(Event.objects.filter(thread=thread).order_by("seq"))
    assert [event.seq for event in events] == list(range(1, thread.event_seq + 1))
    runs = list(thread.runs.order_by("number"))
    assert [run.number for run in runs] == list(range(1, len(runs) + 1))
    assert {run.status for run in runs} == {Run.Status.COMPLETED}
    ended = Counter(event.run_id for event in events if event.type == "run_complete")
    assert ended == Counter(run.pk for run in runs), "not one end for each run"
    results = ToolCall.objects.filter(thread=thread, result__isnull=False)
    told = Counter(event.tool_call_id for event in events if event.type in ("tool_complete", "tool_error"))
    assert told == Counter(results.values_list("pk", flat=True)), "not one end for each call"


def check_conversation(said: Sequence[Message]) -> None:
    """The two turns, each message once; every result right behind its answer."""
    assert [message.position for message in said] == list(range(1, len(said) + 1))
    roles = ["user", "assistant", *("tool" for _ in actors.ASKED), "assistant", "user", "assistant"]
    assert [message.role for message in said] == roles
    texts = [_text(message) for message in said if message.role != "tool"]
    assert texts == [actors.TEXTS[0], "One moment.", actors.ANSWERS[0], actors.TEXTS[1], actors.ANSWERS[1]]
    results = [block["tool_result"] for m in said if m.role == "tool" for block in m.content]
    assert sorted(result["name"] for result in results) == sorted(actors.ASKED)


def _text(message: Message) -> str:
    return "".join(block.get("text", "") for block in message.content)


def check_effects(key: str, ledger: actors.Ledger, snapshot: Snapshot, on_crash: str) -> None:
    """How often each call took effect, by what the dead process had saved of it."""
    booked = Counter(CallBack.objects.values_list("note", flat=True))
    for call_key, call in newest_calls(key).items():
        if call.name == "delegate":
            continue
        if call.name == "book":
            assert booked[call_key] == 1, f"{booked[call_key]} rows of {call_key}"
            continue
        row, rule = snapshot.calls.get(call_key), ON_CRASH.get(call.name, on_crash)
        before, found = snapshot.effects[call_key], ledger.effects[call_key]
        wanted = _wanted(row, before, rule)
        assert found == wanted, f"{call.name} took effect {found} times, not {wanted}"
        if rule == "ask" and row is not None and row.status == "running":
            again = (call.try_number, call.decided_at is not None)
            assert again == (row.try_number + 1, True), f"nobody was asked whether {call.name} may run again"


def _wanted(row: ToolCall | None, before: int, on_crash: str) -> int:
    if row is None or row.status in ("ready", "awaiting_approval"):
        assert not before, "it took effect before it had started"
        return 1
    if row.result_id is not None:
        assert before == 1
        return before
    assert row.status == "running", row.status
    return before if on_crash == "report" else before + 1


def left_of(epoch: UUID) -> dict[str, Any]:
    """How many rows there are of a thread."""
    return {
        model.__name__: model._base_manager.filter(thread=epoch).count()
        for model in (Run, Checkpoint, Message, ToolCall, Event)
    }
