"""Who holds a thread: taking it, losing it, letting it go. One worker after the other, by hand."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, connections
from django.db.models.functions import Now

from criogen_threads import errors
from criogen_threads.backends.base import ModelAnswer, Usage
from criogen_threads.engine.journal import pen, rewinds, saves, takes, turns, workers
from criogen_threads.engine.journal.holding import hold
from criogen_threads.engine.journal.turns import Turn
from criogen_threads.engine.journal.writing import write
from criogen_threads.ids import new_id
from criogen_threads.models import Checkpoint, Message, Run, Thread, Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.engine.journal.takes import Lease

pytestmark = pytest.mark.django_db(transaction=True)
postgres_only = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no row locks")

KEY = "user-1"


def a_worker() -> UUID:
    worker = new_id()
    workers.register(worker, "host", 1)
    return worker


def dies(worker: UUID) -> None:
    Worker.objects.filter(pk=worker).update(expires_at=Now())


def lives(worker: UUID, seconds: float) -> None:
    Worker.objects.filter(pk=worker).update(expires_at=Now() + timedelta(seconds=seconds))


def begin(worker: UUID, on_busy: str = "wait") -> Any:
    return turns.begin(Turn(KEY, "helper", [{"text": "Hello"}], on_busy=on_busy), worker)


def submit(worker: UUID) -> Any:
    return turns.submit(Turn(KEY, "helper", [{"text": "Hello"}]), worker)


def take_over(worker: UUID) -> Lease:
    lease = takes.retry(KEY, worker, run_id=new_id())
    assert lease is not None
    return lease


class Other(threading.Thread):
    """Another process, as far as the database can tell: a thread with a connection of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.work()
        except Exception as error:
            self.result = error
        finally:
            connections.close_all()

    def ended(self) -> Any:
        self.join(20)
        assert not self.is_alive()
        return self.result


def until_somebody_waits_for_a_lock() -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            if cursor.fetchone() != (0,):
                return
        time.sleep(0.01)
    raise AssertionError("nobody waits")


@postgres_only
@pytest.mark.parametrize("how", ["renewed", "new"])
def test_a_live_holder_never_looks_free_after_a_lock_wait(how: str) -> None:
    """While a call waited for the row, the holder beat on, or another took the thread: what it read before is old."""
    old = a_worker()
    lease = begin(old)
    if how == "new":
        saves.finish(lease, new_id())
        taker = new_id()
    lives(old, 2)

    @write
    def hold_the_row(session: Session) -> Other:
        locked = pen.lock(session, lease.thread_id)
        assert locked is not None
        other = Other(lambda: begin(a_worker(), on_busy="reject"))
        until_somebody_waits_for_a_lock()
        if how == "new":
            Other(lambda: workers.register(taker, "host", 2)).ended()
            session.update(Thread, lease.thread_id, holder=taker, status="running", fence=locked.fence + 1)
        else:
            assert Other(lambda: workers.renew(old)).ended() is True
            time.sleep(2)  # what the call has read of the holder is over
        return other

    other = hold_the_row()
    assert isinstance(other.ended(), errors.ThreadBusyError)


def _selects(save: Callable[[], Any]) -> list[str]:
    """The queries of a save."""
    found: list[str] = []

    def note(execute: Any, sql: str, *args: Any) -> Any:
        found.extend([sql] * sql.startswith("SELECT"))
        return execute(sql, *args)

    with connection.execute_wrapper(note):
        save()
    return found


def test_a_holder_reads_where_it_stands_in_the_locking_statement_alone() -> None:
    lease = begin(a_worker())
    answers = [ModelAnswer([{"text": text}], Usage(1, 1)) for text in ("one", "two", "three")]

    def say(answer: ModelAnswer) -> Any:
        return saves.answer(
            lease, answer, (), {}, finishes=answer is answers[-1], message_id=new_id(), checkpoint_id=new_id()
        )

    assert len(_selects(lambda: say(answers[0]))) == 1
    lease.head = lease.head._replace(id=new_id())  # another head than the one that is there: it is read
    assert len(_selects(lambda: say(answers[1]))) == 2
    say(answers[2])
    messages = Message.objects.order_by("position")
    assert [(m.position, m.parent_id) for m in messages] == [
        (n, messages[n - 2].pk if n > 1 else None) for n in range(1, 5)
    ]
    checkpoints = Checkpoint.objects.order_by("version")
    assert [(c.step, c.message_id) for c in checkpoints] == list(enumerate(m.pk for m in messages))


@postgres_only
def test_a_save_that_waited_for_the_lock_is_dated_behind_what_it_waited_for() -> None:
    lease, before = begin(a_worker()), []

    @write
    def hold_the_row(session: Session) -> Other:
        assert pen.lock(session, lease.thread_id) is not None
        other = Other(lambda: saves.finish(lease, new_id()))
        until_somebody_waits_for_a_lock()
        session.update(Thread, lease.thread_id, title="t")
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            before.append(cursor.fetchone()[0])
        return other

    other = hold_the_row()
    other.ended()
    assert before[0] <= Checkpoint.objects.get(version=2).created_at


def test_f12_every_save_under_an_old_fence_is_refused() -> None:
    """Another worker took over, or the same one again: the old lease writes nothing."""
    first, second = a_worker(), a_worker()
    lease = begin(first)
    dies(first)
    newer = take_over(second)
    dies(second)
    lives(first, 60)
    newest = take_over(first)
    assert (lease.fence, newer.fence, newest.fence) == (1, 2, 3)
    before = Thread.objects.values().get()
    for late in (lease, newer):
        for save in all_saves(late):
            with pytest.raises(errors.LeaseLostError):
                save()
    assert Thread.objects.values().get() == before
    saves.finish(newest, new_id())
    assert Run.objects.get().status == Run.Status.COMPLETED


def test_f12_a_save_of_another_run_than_the_thread_s_is_refused() -> None:
    """Whoever has moved the thread on to another run, though its holder and its fence are still the same."""
    lease = begin(a_worker())
    Thread.objects.update(current_run=new_id())
    before = Thread.objects.values().get()
    for save in all_saves(lease):
        with pytest.raises(errors.LeaseLostError):
            save()
    assert Thread.objects.values().get() == before


@pytest.mark.parametrize("late", ["send", "submit"])
def test_p10_nobody_starts_before_those_who_came_earlier(late: str) -> None:
    """By the line itself, whenever a waiting call or a dispatcher comes to ask."""
    worker = a_worker()
    lease = begin(worker)
    first = submit(worker)
    second = begin(worker) if late == "send" else submit(worker)
    saves.finish(lease, new_id())
    third = begin(worker)  # the thread is free, and it is not this one's turn
    for waiting, next_one in ((first, second), (second, third)):
        assert takes.start_queued(next_one.run_id, new_id(), worker) is None
        started = takes.start_queued(waiting.run_id, new_id(), worker)
        assert started is not None
        assert takes.start_queued(next_one.run_id, new_id(), worker) is None  # now it is held
        saves.finish(started, new_id())
    assert takes.start_queued(third.run_id, new_id(), worker) is not None


def test_p10_nor_before_a_run_whose_approvals_are_all_answered() -> None:
    worker = a_worker()
    lease = begin(worker)
    waiting = submit(worker)
    Run.objects.filter(pk=lease.run.id).update(status=Run.Status.REQUIRES_ACTION)
    Thread.objects.update(status=Thread.Status.SUSPENDED, holder=None, pending=0)
    assert takes.start_queued(waiting.run_id, new_id(), worker) is None
    resumed = takes.resume(KEY, worker)
    assert resumed is not None
    saves.finish(resumed, new_id())
    assert takes.start_queued(waiting.run_id, new_id(), worker) is not None


def all_saves(lease: Lease) -> list[Callable[[], Any]]:
    """Every way to write under a lease."""
    answer = ModelAnswer([{"text": "late"}], Usage())
    return [
        lambda: saves.answer(lease, answer, [], {}, finishes=True, message_id=new_id(), checkpoint_id=new_id()),
        lambda: saves.plan(lease, []),
        lambda: saves.begin_calls(lease, []),
        lambda: saves.results(lease, [], new_id()),
        lambda: saves.suspend(lease, new_id()),
        lambda: saves.finish(lease, new_id()),
        lambda: saves.fail(lease, errors.ModelFailedError(), new_id()),
    ]


def test_f06_only_the_holder_of_the_fence_lets_go() -> None:
    """A stale owner releases neither the new owner's thread nor, under its old fence, its own."""
    first, second = a_worker(), a_worker()
    lease = begin(first)
    dies(first)
    newer = take_over(second)
    assert saves.release(lease.thread_id, first, lease.fence) is False
    assert saves.release(lease.thread_id, first, newer.fence) is False
    assert saves.release(lease.thread_id, second, lease.fence) is False
    assert Thread.objects.get().holder == second
    assert saves.release(lease.thread_id, second, newer.fence) is True
    assert Thread.objects.interrupted().exists()  # type: ignore[attr-defined]


def test_f12_a_deleted_thread_cannot_be_written_any_more() -> None:
    worker = a_worker()
    lease = begin(worker)
    dies(worker)
    assert rewinds.delete(KEY) is True
    for save in all_saves(lease):
        with pytest.raises(errors.LeaseLostError):
            save()


@postgres_only
@pytest.mark.parametrize("where", ["between statements", "inside a pipeline", "after a pipeline"])
def test_a_process_that_stops_below_the_lock_does_not_keep_it(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends its transaction, wherever in a save it stands."""
    lease = begin(a_worker())
    monkeypatch.setattr(pen, "LOCKED_FOR", "500ms")
    stopped, go_on = threading.Event(), threading.Event()

    @write
    def save(session: Session) -> None:
        hold(session, lease)
        if where == "between statements":
            Run.objects.using(session.alias).exists()
        if where != "inside a pipeline":
            stopped.set()
            go_on.wait(20)
        with session.pipelined():
            session.update(Thread, lease.thread_id, version=99)
            stopped.set()
            go_on.wait(20)

    other = Other(save)
    try:
        assert stopped.wait(10)
        saves.finish(lease, new_id())
    finally:
        go_on.set()
    assert isinstance(other.ended(), errors.LeaseLostError)
    assert Thread.objects.get().version == 2


def test_a_dead_worker_is_not_brought_back_by_a_late_beat() -> None:
    worker = a_worker()
    assert workers.renew(worker) is True
    dies(worker)
    assert workers.renew(worker) is False
    assert not Worker.objects.alive().exists()  # type: ignore[attr-defined]
