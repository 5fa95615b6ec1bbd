"""The dispatcher "celery" (the extra "celery").

A worker finds the task by ``app.autodiscover_tasks()``. The site's app calls ``set_default()``: turns are handed over
from threads of this package, and to Celery an app is otherwise that of the thread which made it. Beside the workers
``manage.py criogen_recover --every 30`` takes up what a dead one left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery import shared_task  # type: ignore[import-untyped, unused-ignore]

from criogen_threads.engine.dispatch.base import Dispatcher
from criogen_threads.engine.dispatch.jobs import STAYS, work

if TYPE_CHECKING:
    from uuid import UUID


class Celery(Dispatcher):
    """One task for each run; it carries the id only."""

    stays = STAYS

    def submit(self, run_id: UUID) -> None:
        run_job.delay("submit", str(run_id))

    def resume(self, key: str) -> None:
        run_job.delay("resume", key)

    def retry(self, run_id: UUID) -> None:
        run_job.delay("retry", str(run_id))


# Acknowledged late: handed to another worker when this one dies before it has begun, and a no-op after.
@shared_task(name="criogen_threads.run_job", acks_late=True, ignore_result=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
def run_job(what: str, name: str) -> None:
    """Run what was handed over to its end."""
    work(Celery(), what, name)
