"""Compiled statements say what the ORM would say, on both databases."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import UUID

import pytest
from django.db import DataError, IntegrityError, connection, transaction

from criogen_threads.engine.journal import driver, lines, statements
from criogen_threads.engine.journal.pen import LOCK_BY_KEY, STANDING_BY_KEY, Pen, lock, lock_key
from criogen_threads.engine.journal.statements import Select, Session, bind
from criogen_threads.ids import new_id
from criogen_threads.models import Message, Run, Thread, ToolCall, Worker
from tests.engine.every_row import every_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import Model

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def a_session() -> Iterator[Session]:
    session = Session(connection)
    with session.transaction():
        yield session


def _values(row: Model) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


Statements = list[tuple[str, list[Any]]]


@contextmanager
def written(to: Statements, kinds: tuple[str, ...] = ("INSERT", "UPDATE")) -> Iterator[None]:
    """Collect the text and the values of every INSERT and UPDATE."""

    def record(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(kinds):
            text = sql.partition(" RETURNING")[0].replace('"id" = (%s)', '"id" = %s')
            to.append((text, list(params)))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(record):
        yield


def _written_by(write: Callable[[], object]) -> Statements:
    """What a write executes; it is undone."""
    found: Statements = []
    with transaction.atomic(), written(found):
        write()
        transaction.set_rollback(True)
    return found


def test_every_column_of_every_row_comes_back_as_it_was() -> None:
    rows = every_row()
    with a_session() as session:
        for row in rows:
            session.insert([row])
    for row in rows:
        assert all(value is not None for value in _values(row).values())
        assert _values(type(row)._base_manager.get(pk=row.pk)) == _values(row)


def test_json_is_kept_byte_for_byte() -> None:
    rows = every_row()
    with a_session() as session:
        session.insert([rows[0]])
    with connection.cursor() as cursor:
        cursor.execute("SELECT state FROM criogen_threads_thread")
        [text] = cursor.fetchone()
    assert text.startswith('{"z":1,"a":[null,true,0.1,1000000000000000000000000000000,"\\u0000 ünï')


def test_an_insert_is_the_one_that_the_orm_writes() -> None:
    for row in every_row():
        mine = _written_by(lambda row=row: Session(connection).insert([row]))
        assert mine == _written_by(lambda row=row: type(row)._base_manager.bulk_create([row]))
        assert len(mine) == 1


def test_an_update_is_the_one_that_the_orm_writes() -> None:
    with a_session() as session:
        for row in every_row():
            session.insert([row])
    for model in (Thread, Run, ToolCall):
        row = model._base_manager.get()
        columns = {
            field.name: getattr(row, field.attname) for field in row._meta.concrete_fields if not field.primary_key
        }
        ordered = dict(sorted(columns.items()))
        mine = _written_by(lambda row=row, c=columns: Session(connection).update(type(row), row.pk, **c))
        assert mine == _written_by(lambda row=row, c=ordered: type(row)._base_manager.filter(pk=row.pk).update(**c))
        assert len(mine) == 1


def test_an_update_changes_the_columns_that_are_named_of_the_row_that_is_named() -> None:
    with a_session() as session:
        session.insert([Thread(key="one", agent="x", status="running", holder=new_id()), Thread(key="two", agent="x")])
        first = Thread.objects.get(key="one")
        session.update(Thread, first.pk, status="idle", holder=None, state={"n": 1})
    changed, other = Thread.objects.get(key="one"), Thread.objects.get(key="two")
    assert _values(changed) == {**_values(first), "status": "idle", "holder": None, "state": {"n": 1}}
    assert (other.state, other.agent) == ({}, "x")


def test_several_rows_go_in_with_one_statement_and_defaults_are_the_database_s() -> None:
    thread = Thread(key="one", agent="helper")
    messages = [Message(thread=thread, role="user", content=[{"text": str(n)}], position=n) for n in range(5)]
    with a_session() as session:
        session.insert([thread])
        found: Statements = []
        with written(found):
            session.insert(messages)
    assert len(found) == 1
    stored = list(Message.objects.order_by("position"))
    assert [message.content for message in stored] == [[{"text": str(n)}] for n in range(5)]
    assert all(abs(datetime.now(UTC) - message.created_at) < timedelta(minutes=5) for message in stored)


def test_one_write_of_a_row_counts_for_all_that_is_said_of_it() -> None:
    """A pen may set columns of a row twice, and of a row that it adds; one statement would see only one of them."""
    with a_session() as session:
        session.insert([Thread(key="one", agent="x")])
        locked = lock_key(session, "one")
        assert locked is not None
        stored = Run(thread_id=locked.id, number=1, agent="x")
        session.insert([stored])
        pen = Pen(session, locked)
        pen.update(Run, stored.pk, waiter=locked.id, status="in_progress")
        pen.update(Run, stored.pk, status="failed", error_code="gone")
        added = pen.run(Run(thread_id=locked.id, number=2, agent="x"))
        pen.update(Run, added.pk, forked_from=stored.pk, status="failed")
        pen.write()
    runs = list(Run.objects.order_by("number"))
    assert (runs[0].waiter, runs[0].status, runs[0].error_code) == (locked.id, "failed", "gone")
    assert (runs[1].forked_from_id, runs[1].status) == (stored.pk, "failed")


def test_insert_can_pass_over_a_row_that_is_there() -> None:
    with a_session() as session:
        session.insert([Thread(key="one", agent="first")])
        session.insert([Thread(key="one", agent="second")], ignore_conflicts=True)
        session.insert([])
    assert [thread.agent for thread in Thread.objects.all()] == ["first"]


def test_a_select_reads_named_columns_with_values_given_when_it_runs() -> None:
    by_agent = Select(
        lambda _: Thread.objects.filter(agent=bind(Thread, "agent")).values_list("key", "state", named=True)
    )
    with a_session() as session:
        session.insert([Thread(key="a", agent="x", state={"n": 1}), Thread(key="b", agent="y", state={})])
        for agent, key, state in (("x", "a", {"n": 1}), ("y", "b", {})):
            row = session.row(by_agent, agent=agent)
            assert (row.key, row.state) == (key, state)
        assert session.row(by_agent, agent="z") is None
        assert [[row.key for row in rows] for rows in session.together(by_agent, by_agent, agent="x")] == [["a"], ["a"]]


def test_constants_stand_in_the_statement_itself() -> None:
    odd = "it's"
    by_title = Select(
        lambda _: Thread.objects.filter(agent=bind(Thread, "agent"), key__in=[odd, "100%"], pending=0).values_list(
            "key", named=True
        )
    )
    with a_session() as session:
        session.insert([Thread(key=odd, agent="x"), Thread(key="100%", agent="x"), Thread(key="other", agent="x")])
        assert {row.key for row in session.rows(by_title, agent="x")} == {odd, "100%"}
    assert len(by_title.statement(connection).params) == 2  # what has a % in it stays a value


def test_the_locked_thread_reads_like_the_model() -> None:
    rows = every_row()
    with a_session() as session:
        for row in rows:
            session.insert([row])
        thread, _, message, checkpoint = rows[:4]
        locked = lock_key(session, "one")
        assert locked is not None
        assert lock(session, thread.pk) == replace(locked, now=mock.ANY)
        for name in (
            "id",
            "key",
            "agent",
            "owner_id",
            "status",
            "state",
            "pending",
            "tokens",
            "version",
            "fence",
            "holder",
        ):
            assert getattr(locked, name) == getattr(thread, name)
        assert (locked.message_id, locked.position) == (message.pk, message.position)
        assert (locked.step, locked.head_status) == (checkpoint.step, checkpoint.status)
        assert locked.held is False
        assert locked.interrupted is True
        assert lock_key(session, "two") is None


def test_a_living_holder_holds() -> None:
    worker = Worker.objects.create(host="h", pid=1, expires_at=datetime.now(UTC) + timedelta(minutes=1))
    Thread.objects.create(key="one", agent="x", status="running", holder=worker.pk)
    with a_session() as session:
        locked = lock_key(session, "one")
    assert locked is not None
    assert locked.held is True
    assert locked.interrupted is False


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="row locks and pipelines are PostgreSQL's")
class TestPostgreSQL:
    def test_the_lock_is_for_no_key_update_and_limits_how_long_it_is_held(self) -> None:
        Thread.objects.create(key="one", agent="x")
        with a_session() as session:
            lock_key(session, "one")
            text = LOCK_BY_KEY.statement(connection).text
            assert text.endswith("FOR NO KEY UPDATE")
            assert "FOR " not in STANDING_BY_KEY.statement(connection).text
            with connection.cursor() as cursor:
                newer = connection.pg_version >= 170000
                cursor.execute(f"SHOW {'transaction_timeout' if newer else 'idle_in_transaction_session_timeout'}")
                assert cursor.fetchone() == ("15s",)

    def test_what_a_save_puts_down_is_one_statement_that_says_what_many_would(self) -> None:
        rows = every_row()
        thread, run, others = rows[0], rows[1], rows[2:]
        updates = {(Thread, thread.pk): {"title": "t%"}, (Run, run.pk): {"status": "failed", "usage": {"requests": 2}}}
        with a_session() as session:
            session.insert([thread])
            session.insert([run])
            together: Statements = []
            with written(together, ("INSERT", "UPDATE", "WITH")):
                session.put_down([[row] for row in others], updates)
        assert len(together) == 1
        for row in others:
            assert _values(type(row)._base_manager.get(pk=row.pk)) == _values(row)
        assert _values(Thread.objects.get()) == {**_values(thread), "title": "t%"}
        assert _values(Run.objects.get()) == {**_values(run), "status": "failed", "usage": {"requests": 2}}

    def test_what_is_too_much_for_one_statement_goes_in_all_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(statements, "MOST_VALUES", 100)
        thread = Thread.objects.create(key="one", agent="x")
        messages = [Message(thread=thread, role="user", content=[{"text": ""}], position=n) for n in range(30)]
        with a_session() as session:
            session.put_down([messages], {(Thread, thread.pk): {"title": "t"}})
        assert (Message.objects.count(), Thread.objects.get().title) == (30, "t")

    def test_who_is_first_in_line_is_looked_up_among_those_who_wait(self) -> None:
        """By the plan that a prepared statement keeps, and not among all runs that the thread ever had."""
        if connection.pg_version < 160000:
            pytest.skip("older servers do not show such a plan")
        thread = Thread.objects.create(key="one", agent="x")
        Run.objects.bulk_create(Run(thread=thread, number=n, agent="x", status="completed") for n in range(1, 500))
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE criogen_threads_run")
        statement = driver.numbered(lines.LINE.statement(connection).text).decode()
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (GENERIC_PLAN) {statement}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "criogen_run_queued" in plan

    def test_numbers_stand_for_values_and_nothing_else_changes(self) -> None:
        assert driver.numbered("SELECT %s, '100%%', %s") == b"SELECT $1, '100%', $2"
        assert driver.numbered("SELECT 1") == b"SELECT 1"
        with a_session() as session:
            cursor = session._execute("SELECT %s::int + %s::int, 'é%%'", [1, 2])
            assert cursor.fetchall() == [(3, "é%")]

    def test_the_statements_of_a_save_travel_together(self) -> None:
        thread = Thread(key="one", agent="x")
        with a_session() as session:
            with session.pipelined():
                session.insert([thread])
                session.insert([Run(thread=thread, number=1, agent="x")])
                session.update(Thread, thread.pk, title="t")
                assert connection.connection.pgconn.pipeline_status != 0
            assert connection.connection.pgconn.pipeline_status == 0
            assert Thread.objects.get().title == "t"

    @pytest.mark.parametrize(("number", "error"), [(1, IntegrityError), (2**70, DataError)])
    def test_an_error_in_a_pipeline_is_django_s_own_and_undoes_everything(
        self, number: int, error: type[Exception]
    ) -> None:
        thread = Thread.objects.create(key="one", agent="x")
        Run.objects.create(thread=thread, number=1, agent="x")
        with pytest.raises(error), a_session() as session, session.pipelined():
            session.update(Thread, thread.pk, title="t")
            session.insert([Run(thread=thread, number=number, agent="x")])
        assert Thread.objects.get().title == ""
        assert not connection.in_atomic_block


def test_a_session_is_never_part_of_another_transaction() -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"), a_session():
        pass


def test_ids_are_made_by_the_application_and_grow() -> None:
    made = [new_id() for _ in range(100)]
    assert made == sorted(made)
    assert {each.version for each in made} == {7}
    assert all(type(each) is UUID for each in made)
