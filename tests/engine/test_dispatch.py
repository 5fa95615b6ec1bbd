"""Dispatchers: they are handed ids, and whoever executes finds the rest in the rows."""

from __future__ import annotations

import importlib
import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import background, dispatch
from criogen_threads.engine.dispatch import Dispatcher, jobs
from criogen_threads.engine.dispatch.executing import execute
from criogen_threads.engine.journal import leftovers
from criogen_threads.models import Run
from tests.support import an_agent, call, forget_agents, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def quick(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 2, "MODEL_RETRIES": 0}
    yield
    forget_agents()


class Queue(Dispatcher):
    """Keeps what it is handed, like a broker."""

    stays = 0.05
    jobs: list[tuple[str, str]] = []

    def submit(self, run_id: UUID) -> None:
        self.jobs.append(("submit", str(run_id)))

    def resume(self, key: str) -> None:
        self.jobs.append(("resume", key))

    def retry(self, run_id: UUID) -> None:
        self.jobs.append(("retry", str(run_id)))


@pytest.fixture
def queue(settings: SettingsWrapper) -> list[tuple[str, str]]:
    settings.CRIOGEN_THREADS |= {"DISPATCHER": f"{__name__}.Queue"}
    Queue.jobs.clear()
    return Queue.jobs


def work_off(queue: list[tuple[str, str]], most: int = 20) -> None:
    """What one worker does, one job after the other."""
    while queue and most:
        jobs.work(dispatch.get_dispatcher(), *queue.pop(0))
        most -= 1
    assert not queue


@tool(approval="owner")
def confirm() -> str:
    """Ask first."""
    return "confirmed"


def test_a_worker_is_handed_ids_for_all_three_kinds_of_work(queue: list[tuple[str, str]]) -> None:
    handle = an_agent([call("confirm")], ModelError("down", passing=False), tools=[confirm]).thread("one")
    run_id = handle.submit_sync("hi")
    assert queue == [("submit", run_id)]
    work_off(queue)
    handle.answer_sync(True)
    assert queue == [("resume", "one")]
    work_off(queue)
    assert Run.objects.get().error_code == "model_failed"
    an_agent([call("confirm")], "done", tools=[confirm])
    assert handle.request_retry_sync() == run_id
    assert queue == [("retry", run_id)]
    work_off(queue)
    assert (Run.objects.get().status, Run.objects.get().attempt) == ("completed", 2)


def test_jobs_that_come_out_of_order_do_not_wait_for_each_other(queue: list[tuple[str, str]]) -> None:
    """With one worker the second run would wait for ever for the first one, which is behind it in the queue."""
    handle = an_agent("1", "2", "3").thread("one")
    for text in ("a", "b", "c"):
        handle.submit_sync(text)
    queue.reverse()
    work_off(queue)
    assert list(Run.objects.order_by("number").values_list("status", flat=True)) == ["completed"] * 3
    said = [message["content"][0]["text"] for message in handle.messages_sync()]
    assert said == ["a", "1", "b", "2", "c", "3"]


def test_a_job_that_comes_twice_runs_once(queue: list[tuple[str, str]]) -> None:
    handle = an_agent("1", "2").thread("one")
    handle.submit_sync("a")
    queue *= 3
    work_off(queue)
    assert len(handle.messages_sync()) == 2


def test_what_was_left_in_line_is_handed_over_when_the_thread_is_free_again(queue: list[tuple[str, str]]) -> None:
    handle = an_agent("1", [call("confirm")], "3", "4", tools=[confirm]).thread("one")
    handle.submit_sync("a")
    handle.submit_sync("b")
    handle.submit_sync("c")
    work_off(queue)
    assert [run["status"] for run in handle.runs_sync()] == ["completed", "requires_action", "queued"]
    handle.answer_sync(True)
    work_off(queue)
    assert [run["status"] for run in handle.runs_sync()] == ["completed"] * 3


class Broken(Queue):
    def submit(self, run_id: UUID) -> None:
        raise OSError("no broker")


def test_f10_a_broker_that_is_away_loses_nothing(settings: SettingsWrapper, caplog: pytest.LogCaptureFixture) -> None:
    settings.CRIOGEN_THREADS |= {"DISPATCHER": f"{__name__}.Broken"}
    run_id = an_agent("ok").thread("one").submit_sync("hi")
    assert "could not be handed over" in caplog.text
    assert leftovers.forsaken(UUID(int=0)) == [UUID(run_id)]
    background.run(execute, UUID(run_id))
    assert Run.objects.get().status == "completed"


def test_a_job_of_no_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="no job"):
        jobs.work(Queue(), "dance", "x")


def test_the_default_hands_over_what_was_left_without_a_look() -> None:
    """The look for forsaken runs comes every ten seconds; the next in line does not wait for it."""
    go = threading.Event()

    def respond(messages: Any, tools: Any) -> Any:
        if sum(message["role"] == "assistant" for message in messages) == 0:
            return [call("confirm")]
        go.set()
        return "ok"

    handle = an_agent(model=ScriptedModel(respond), tools=[confirm]).thread("one")
    handle.send_sync("a")
    with refused("thread_suspended"):
        handle.submit_sync("b")
    handle.answer_sync(True)
    assert go.wait(5)
    _until_completed(1)


# Django's Tasks -----------------------------------------------------------------------------------------------


def tasks_module() -> str:
    for name in ("django.tasks", "django_tasks"):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        return name
    pytest.skip('neither Django 6 nor the package django-tasks is here: the dispatcher "tasks" is not tested')


def test_the_dispatcher_tasks_enqueues_ids(settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{tasks_module()}.backends.dummy"
    settings.TASKS = {"default": {"BACKEND": f"{path}.DummyBackend"}}
    settings.CRIOGEN_THREADS |= {"DISPATCHER": "tasks"}
    backend = importlib.import_module(path).DummyBackend
    enqueued: list[tuple[Any, list[str]]] = []
    keep = backend.enqueue

    def enqueue(self: Any, task: Any, args: Any, kwargs: Any) -> Any:
        enqueued.append((task, list(args)))
        return keep(self, task, args, kwargs)

    monkeypatch.setattr(backend, "enqueue", enqueue)  # each thread has a backend of its own
    run_id = an_agent("ok").thread("one").submit_sync("hi")
    [(task, args)] = enqueued
    assert args == ["submit", run_id]
    assert Run.objects.get().status == "queued"
    task.func(*args)  # what a worker does
    assert Run.objects.get().status == "completed"
    dispatch.resume("one")
    dispatch.retry(UUID(run_id))
    assert [args for _, args in enqueued[1:]] == [["resume", "one"], ["retry", run_id]]


# Celery -------------------------------------------------------------------------------------------------------


def test_the_dispatcher_celery_runs_in_a_task(settings: SettingsWrapper) -> None:
    celery = pytest.importorskip("celery", reason='the extra "celery" is not installed')
    app = celery.Celery("site", broker="memory://")
    app.set_default()
    app.conf.task_always_eager = True
    app.autodiscover_tasks(["criogen_threads"], force=True)
    assert "criogen_threads.run_job" in app.tasks
    settings.CRIOGEN_THREADS |= {"DISPATCHER": "celery"}
    handle = an_agent([call("confirm")], "ok", "again", tools=[confirm]).thread("one")
    handle.submit_sync("hi")
    assert Run.objects.get().status == "requires_action"
    handle.answer_sync(True)
    assert Run.objects.get().status == "completed"


def _until_completed(count: int) -> None:
    deadline = time.monotonic() + 5
    while Run.objects.filter(status="completed").count() < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)
