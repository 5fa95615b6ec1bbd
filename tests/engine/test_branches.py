"""Branches: read by one query along ``parent``, as the ORM would read the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, connections
from django.forms.models import model_to_dict

from criogen_threads.engine.journal import branches
from criogen_threads.models import Checkpoint, Message, Thread

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread() -> Thread:
    return Thread.objects.create(key="a", agent="a")


def _grow(thread: Thread, tail: Message | None, *texts: str) -> list[Message]:
    """Messages one below the other, below ``tail``."""
    grown: list[Message] = []
    for text in texts:
        position = tail.position + 1 if tail else 1
        tail = Message.objects.create(
            thread=thread, role="user", content=[{"text": text}], parent=tail, position=position
        )
        grown.append(tail)
    return grown


def _stored(row: Message | Checkpoint) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def test_a_branch_is_its_own_ancestors_only(thread: Thread) -> None:
    trunk = _grow(thread, None, "a", "b", "c")
    fork = _grow(thread, trunk[1], "d", "e")
    assert branches.messages(trunk[2].pk) == trunk
    assert branches.messages(fork[1].pk) == [*trunk[:2], *fork]


@pytest.mark.parametrize(("limit", "expected"), [(0, ""), (1, "c"), (2, "bc"), (3, "abc"), (9, "abc")])
def test_a_limit_counts_from_the_end(thread: Thread, limit: int, expected: str) -> None:
    trunk = _grow(thread, None, *"abc")
    assert [message.content[0]["text"] for message in branches.messages(trunk[2].pk, limit)] == list(expected)


def test_no_tail_is_no_branch() -> None:
    assert branches.messages(None) == []


@pytest.mark.parametrize("limit", [None, 0, 2, 9])
def test_a_branch_is_read_from_where_a_thread_stands(
    thread: Thread, limit: int | None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """By its key, in one statement: the columns of the very rows that are read as instances."""
    trunk = _grow(thread, None, "a", "b", "c")
    _grow(thread, trunk[0], "d")
    below = Checkpoint.objects.create(thread=thread, version=1, status="completed", source="input", message=trunk[0])
    head = Checkpoint.objects.create(
        thread=thread, version=2, status="completed", source="step", message=trunk[2], parent=below
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")  # a first query that a connection makes of its own is none of these
    for model, pk in ((Message, trunk[2].pk), (Checkpoint, head.pk)):
        assert branches.values(model, "a", limit) == []  # nothing is its head yet
        Thread.objects.update(head=head)
        with django_assert_num_queries(0 if limit == 0 else 1):
            found = branches.values(model, "a", limit)
        assert found == [_stored(row) for row in branches.ancestors(model, pk, limit)]
        assert branches.values(model, "other", limit) == []
        Thread.objects.update(head=None)


def test_a_row_of_a_branch_is_what_the_orm_reads(thread: Thread) -> None:
    [tail] = _grow(thread, None, "\0 ä 𝄞")
    Message.objects.filter(pk=tail.pk).update(metadata={"n": 1.5, "deep": [None, True]}, agent="b")
    [read], expected = branches.messages(tail.pk), Message.objects.get(pk=tail.pk)
    assert _stored(read) == _stored(expected)
    assert {type(value) for value in _stored(read).values()} == {type(v) for v in _stored(expected).values()}
    assert read.thread == thread
    assert not read._state.adding
    assert read._state.db == expected._state.db
    assert read.get_deferred_fields() == set()
    assert model_to_dict(read) == model_to_dict(expected)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's planner is meant")
def test_each_step_is_a_look_up_in_the_index(thread: Thread) -> None:
    """A join would be planned as a scan of the whole table at each step as long as the table is small."""
    tail = _grow(thread, None, *map(str, range(60)))[-1]
    alias, of_key = connections["default"].alias, branches.STANDS_AT[Message].statement(connection).text
    head = Checkpoint.objects.create(thread=thread, version=1, status="completed", source="step", message=tail)
    Thread.objects.update(head=head)
    for first, value in (("%s", tail.pk), (f"({of_key})", thread.key)):
        walk = branches._walk(alias, Message, limited=False, first=first)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE criogen_threads_message")
            cursor.execute("SET LOCAL enable_seqscan = on")
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {walk}", [value])
            [[[explained]]] = cursor.fetchall()
        nodes = _nodes(explained["Plan"])
        assert explained["Plan"]["Actual Rows"] == 60
        assert not [node for node in nodes if node["Node Type"] == "Seq Scan" and node["Actual Loops"] > 60]
        assert not [node for node in nodes if "Join" in node["Node Type"] and node["Actual Loops"] > 1]


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(found for child in plan.get("Plans", ()) for found in _nodes(child))]
