"""Branches: read by one query along ``parent``, as the ORM would read the same rows."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, connections
from django.forms.models import model_to_dict

from criogen_threads.engine.journal import branches
from criogen_threads.models import Message, Thread

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


def _stored(message: Message) -> dict[str, Any]:
    return {field.attname: getattr(message, field.attname) for field in Message._meta.concrete_fields}


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
    walk = branches._walk(connections["default"].alias, Message, limited=False)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE criogen_threads_message")
        cursor.execute("SET LOCAL enable_seqscan = on")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {walk}", [tail.pk])
        [[[explained]]] = cursor.fetchall()
    plan = explained["Plan"]
    assert not [node for node in _nodes(plan) if node["Node Type"] == "Seq Scan" and node["Actual Loops"] > 60]
    assert not [node for node in _nodes(plan) if "Join" in node["Node Type"] and node["Actual Loops"] > 1]


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(found for child in plan.get("Plans", ()) for found in _nodes(child))]
