"""The dispatcher "tasks": Django's Tasks framework (Django 6.0 and later, or the package django-tasks before).

Any backend that runs tasks in the background will do; its workers are the site's own (``manage.py db_worker``,
``rqworker``, …). Beside them ``manage.py criogen_recover --every 30`` takes up what a dead worker left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from django.tasks import task
except ImportError:  # Django 5.2
    from django_tasks import task  # type: ignore[no-redef, import-not-found, unused-ignore]

from criogen_threads.engine.dispatch.base import Dispatcher
from criogen_threads.engine.dispatch.jobs import STAYS, work

if TYPE_CHECKING:
    from uuid import UUID


class Tasks(Dispatcher):
    """One task for each run; it carries the id only."""

    stays = STAYS

    def submit(self, run_id: UUID) -> None:
        run_job.enqueue("submit", str(run_id))

    def resume(self, key: str) -> None:
        run_job.enqueue("resume", key)

    def retry(self, run_id: UUID) -> None:
        run_job.enqueue("retry", str(run_id))


@task
def run_job(what: str, name: str) -> None:
    """Run what was handed over to its end."""
    work(Tasks(), what, name)
