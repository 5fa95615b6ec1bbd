"""The rows refuse what must not be, whoever writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from criogen_threads.errors import InvalidTransitionError
from criogen_threads.ids import new_id
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall, Worker

pytestmark = pytest.mark.django_db

ALLOWED = {
    ("queued", "in_progress"),
    ("queued", "failed"),
    ("in_progress", "requires_action"),
    ("in_progress", "completed"),
    ("in_progress", "failed"),
    ("requires_action", "in_progress"),
    ("requires_action", "failed"),
    ("failed", "in_progress"),
}


@pytest.fixture
def thread() -> Thread:
    return Thread.objects.create(key="one", agent="x")


def _refuses(model: Any, **values: Any) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.create(**values)


@pytest.mark.parametrize(("old", "new"), list(product(Run.Status.values, repeat=2)))
def test_b2_a_wrong_transition_raises(old: str, new: str) -> None:
    if (old, new) in ALLOWED:
        Run.check_transition(old, new)
    else:
        with pytest.raises(InvalidTransitionError) as caught:
            Run.check_transition(old, new)
        assert caught.value.code == "invalid_transition"


def test_a_key_is_there_once(thread: Thread) -> None:
    _refuses(Thread, key="one", agent="y")


def test_p10_one_run_in_progress_per_thread(thread: Thread) -> None:
    Run.objects.create(thread=thread, number=1, agent="x", status="in_progress")
    for number, status in enumerate(("queued", "requires_action", "completed", "failed"), 2):
        Run.objects.create(thread=thread, number=number, agent="x", status=status)
    _refuses(Run, thread=thread, number=9, agent="x", status="in_progress")
    other = Thread.objects.create(key="two", agent="x")
    Run.objects.create(thread=other, number=1, agent="x", status="in_progress")


def test_run_numbers_and_client_ids_are_there_once_in_a_thread(thread: Thread) -> None:
    Run.objects.create(thread=thread, number=1, agent="x", client_id="c")
    _refuses(Run, thread=thread, number=1, agent="x")
    _refuses(Run, thread=thread, number=2, agent="x", client_id="c")
    Run.objects.create(thread=thread, number=2, agent="x")
    Run.objects.create(thread=thread, number=3, agent="x")  # none is no id
    other = Thread.objects.create(key="two", agent="x")
    Run.objects.create(thread=other, number=1, agent="x", client_id="c")


def test_p30_a_version_is_there_once_in_a_thread(thread: Thread) -> None:
    Checkpoint.objects.create(thread=thread, version=1, status="completed", source="step")
    _refuses(Checkpoint, thread=thread, version=1, status="completed", source="fork")


def test_a_number_of_an_event_is_there_once_in_a_thread(thread: Thread) -> None:
    Event.objects.create(thread=thread, seq=1, type="x")
    _refuses(Event, thread=thread, seq=1, type="y")


def test_a_try_of_a_call_is_there_once(thread: Thread) -> None:
    same = {"thread": thread, "message_id": new_id(), "run_id": new_id(), "step": 1, "index": 0, "call_id": "c",
            "name": "x", "arguments": {}}  # fmt: skip
    ToolCall.objects.create(**same)
    _refuses(ToolCall, **same)
    ToolCall.objects.create(**same, try_number=2)
    ToolCall.objects.create(**{**same, "index": 1})
    ToolCall.objects.create(**{**same, "run_id": new_id()})


def test_statuses_roles_and_sources_are_of_the_known_kinds(thread: Thread) -> None:
    _refuses(Thread, key="two", agent="x", status="busy")
    _refuses(Run, thread=thread, number=1, agent="x", status="cancelled")
    _refuses(Checkpoint, thread=thread, version=1, status="done", source="step")
    _refuses(Checkpoint, thread=thread, version=1, status="completed", source="magic")
    _refuses(Message, thread=thread, role="system", content=[], position=1)
    _refuses(
        ToolCall, thread=thread, message_id=new_id(), run_id=new_id(), step=1, index=0, call_id="c", name="x",
        arguments={}, status="maybe",
    )  # fmt: skip


def test_only_a_running_thread_has_a_holder(thread: Thread) -> None:
    for status in ("idle", "suspended", "failed"):
        _refuses(Thread, key=status, agent="x", status=status, holder=new_id())
    Thread.objects.create(key="two", agent="x", status="running", holder=new_id())


def test_querysets_name_the_states(thread: Thread) -> None:
    now = datetime.now(UTC)
    alive = Worker.objects.create(host="h", pid=1, expires_at=now + timedelta(minutes=1))
    dead = Worker.objects.create(host="h", pid=2, expires_at=now - timedelta(minutes=1))
    for key, values in {
        "live": {"status": "running", "holder": alive.pk},
        "dead": {"status": "running", "holder": dead.pk},
        "let go": {"status": "running"},
        "waiting": {"status": "suspended", "pending": 1},
        "due": {"status": "suspended"},
    }.items():
        Thread.objects.create(key=key, agent="x", **values)

    def keys(rows: Any) -> set[str]:
        return set(rows.values_list("key", flat=True))

    assert keys(Thread.objects.held()) == {"live"}
    assert keys(Thread.objects.interrupted()) == {"dead", "let go"}
    assert keys(Thread.objects.due()) == {"due"}
    assert set(Worker.objects.alive()) == {alive}


def test_the_line_is_in_the_order_of_arrival_with_urgent_ones_first(thread: Thread) -> None:
    for number, values in enumerate(({}, {"urgent": True}, {"status": "failed"}, {}, {"urgent": True}), 1):
        Run.objects.create(thread=thread, number=number, agent="x", **values)
    assert [run.number for run in Run.objects.queued()] == [2, 5, 1, 4]


def test_expired_and_waiting_approvals(thread: Thread) -> None:
    now = datetime.now(UTC)
    for index, (status, expires) in enumerate(
        [
            ("awaiting_approval", None),
            ("awaiting_approval", now - timedelta(1)),
            ("awaiting_approval", now + timedelta(1)),
            ("rejected", now - timedelta(1)),
        ]
    ):
        ToolCall.objects.create(
            thread=thread,
            message_id=new_id(),
            run_id=new_id(),
            step=1,
            index=index,
            call_id="c",
            name="x",
            arguments={},
            status=status,
            expires_at=expires,
        )
    assert sorted(call.index for call in ToolCall.objects.awaiting_approval()) == [0, 1, 2]
    assert [call.index for call in ToolCall.objects.expired()] == [1]


def test_effective_arguments_are_the_edited_ones_where_there_are_any() -> None:
    assert ToolCall(arguments={"n": 1}).effective_arguments == {"n": 1}
    assert ToolCall(arguments={"n": 1}, edited_arguments={}).effective_arguments == {}


def test_names_for_people(thread: Thread) -> None:
    assert str(thread) == "one"
    assert str(Run(number=3)) == "#3"
    assert str(Checkpoint(version=2, source="fork")) == "2 (fork)"
    assert str(Message(position=1, role="user")) == "1 (user)"
    assert str(ToolCall(name="refund")) == "refund"
    assert str(Event(seq=4, type="note")) == "4 note"
    assert str(Worker(host="h", pid=7)) == "h:7"
