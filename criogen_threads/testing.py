"""For the tests of a site that uses criogen_threads.

``in_calling_thread`` makes conversations work inside Django's ``TestCase``, whose transaction other threads
cannot see; ``scripted`` gives an agent its answers; ``run_submitted`` runs what was submitted. All of it works
with ``TestCase``, with pytest-django's ``db`` fixture, and in async tests::

    @in_calling_thread()
    class ChatTests(TestCase):
        def test_the_desk_answers(self):
            with scripted("support", "Hello!"):
                self.assertEqual(get_agent("support").thread("t", actor=user).send_sync("Hi").text, "Hello!")
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.dispatch import receiver
from django.test.utils import override_settings

from criogen_threads.agents import get_agent
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import lease
from criogen_threads.engine.dispatch import Dispatcher
from criogen_threads.engine.dispatch.executing import execute, execute_due, execute_retry
from criogen_threads.engine.journal import leftovers
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
    from uuid import UUID

    from criogen_threads.agents import Agent
    from criogen_threads.backends.base import Delta, ModelAnswer, ModelRequest
    from criogen_threads.backends.scripted import Answer

    Job = tuple[Callable[[Any], Coroutine[Any, Any, Any]], UUID | str]

__all__ = ["ScriptedModel", "in_calling_thread", "run_submitted", "run_submitted_sync", "scripted"]

CALLING_THREAD = {"IN_CALLING_THREAD": True, "DISPATCHER": f"{__name__}.LeftInLine", "MODEL_BACKOFF": 0}


class in_calling_thread(override_settings):  # noqa: N801 (used like override_settings)
    """Run reads, saves and tools in the thread of the test, inside its transaction.

    A decorator for ``TestCase`` classes and for test functions, or a context manager. Everything of the engine
    holds but what needs a second thread: tools run one after the other, and a synchronous tool is not left
    behind by its timeout. Submitted turns wait for ``run_submitted``. A model request that failed for a passing
    reason is repeated without a pause.

    An async function that it decorates becomes a synchronous one, which runs on an event loop of its own: only
    so does an async pytest test see the rows of the ``db`` fixture. Async methods of a ``TestCase`` need
    nothing.

    Args:
        options: Further keys of ``CRIOGEN_THREADS``, such as ``MODEL_RETRIES=0``.
    """

    def __init__(self, **options: Any) -> None:
        site = getattr(django_settings, "CRIOGEN_THREADS", {})
        super().__init__(CRIOGEN_THREADS={**site, **CALLING_THREAD, **options})

    def decorate_callable(self, func: Any) -> Any:
        if not iscoroutinefunction(func):
            return super().decorate_callable(func)

        @functools.wraps(func)
        def to_its_end(*args: Any, **kwargs: Any) -> Any:
            return async_to_sync(func)(*args, **kwargs)

        return super().decorate_callable(to_its_end)


@receiver(setting_changed)
def _begin_anew(*, setting: str, value: Any, **_: Any) -> None:
    """A worker belongs to one way of running: its row is in the test's transaction, or has a beat."""
    global _in_calling_thread
    values = value if isinstance(value, dict) else {}  # what else it may be, the check says
    if setting == "CRIOGEN_THREADS" and bool(values.get("IN_CALLING_THREAD")) != _in_calling_thread:
        _in_calling_thread = not _in_calling_thread
        lease.forget()


_in_calling_thread = False


class Answers(ScriptedModel):
    """Gives one answer a request, and keeps the requests.

    Args:
        answers: What ``scripted`` was given.
    """

    def __init__(self, *answers: Answer | Exception) -> None:
        super().__init__(self._next)
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | ModelAnswer]:
        self.requests.append(request)
        async for piece in super().stream(request):
            yield piece

    def _next(self, *_request: Any) -> Answer:
        number = len(self.requests)
        if number > len(self.answers):
            raise ModelError(f"The test gave {len(self.answers)} answers, and this is request {number}", passing=False)
        answer = self.answers[number - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def scripted(agent: Agent | str, *answers: Answer | Exception) -> Iterator[Answers]:
    """Give an agent its answers for the time of a ``with`` block or, as a decorator, of a function.

    Args:
        agent: An agent, or the name of a registered one.
        answers: One for each request to the model, in order: text, a list of blocks (such as
            ``[{"tool_call": {"name": "refund", "arguments": {…}}}]``), or an exception that the request is to
            fail with (``ModelError(text, passing=True)`` for one that is sent again). A request beyond them
            fails the run with ``model_failed``.

    Returns:
        The model that stands in; its ``requests`` are what it was asked.
    """
    replaced = get_agent(agent) if isinstance(agent, str) else agent
    model = Answers(*answers)
    before = replaced.__dict__.get("backend")
    replaced.__dict__["backend"] = model
    try:
        yield model
    finally:
        del replaced.__dict__["backend"]
        if before is not None:
            replaced.__dict__["backend"] = before


class LeftInLine(Dispatcher):
    """Runs nothing: what is handed over stays where it is until the test has it run."""

    def submit(self, run_id: UUID) -> None:
        """It is in line already."""

    def resume(self, key: str) -> None:
        """It is due already."""

    def retry(self, run_id: UUID) -> None:
        """It is reopened already."""


async def run_submitted() -> int:
    """Run what a worker would run now: answered runs, accepted retries, and submitted turns in order of arrival.

    Returns:
        How many there were. How each ended stands in its run.
    """
    done: set[Job] = set()
    while waiting := [job for job in await in_database(_waiting) if job not in done]:
        for work, name in waiting:
            await work(name)
        done.update(waiting)
    return len(done)


def run_submitted_sync() -> int:
    """``run_submitted`` for tests without asyncio."""
    return async_to_sync(run_submitted)()


def _waiting() -> list[Job]:
    """What could start now: how it is executed, and what it is called."""
    accepted = Run.objects.filter(status=Run.Status.IN_PROGRESS, waiter__isnull=False).values_list("pk", flat=True)
    queued = _first_of_each_thread(leftovers.forsaken(lease.current().id))
    return [
        *((execute_due, key) for key in sorted(leftovers.due())),
        *((execute_retry, run_id) for run_id in accepted.order_by("pk")),
        *((execute, run_id) for run_id in queued),
    ]


def _first_of_each_thread(runs: list[UUID]) -> list[UUID]:
    """In order of arrival; those behind them follow in the next round."""
    threads = Run.objects.filter(pk__in=runs).order_by("pk").values_list("thread", flat=True)
    first = [leftovers.left_in_line(thread) for thread in dict.fromkeys(threads)]
    return [run_id for run_id in first if run_id is not None]
