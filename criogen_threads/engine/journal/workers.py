"""Rows of the processes that run turns."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Now

from criogen_threads.conf import settings
from criogen_threads.engine.journal.statements import database
from criogen_threads.models import Thread, Worker

if TYPE_CHECKING:
    from uuid import UUID


def _lease_end() -> Any:
    return Now() + timedelta(seconds=settings.LEASE_SECONDS)


def register(worker: UUID, host: str, pid: int) -> None:
    """A process begins to run turns. Said twice, where the first answer was lost, it is the same."""
    values = {"host": host[:255], "pid": pid, "expires_at": _lease_end()}
    Worker.objects.using(database()).update_or_create(pk=worker, defaults=values)


def renew(worker: UUID) -> bool:
    """A beat; False when this worker is dead to the others."""
    return bool(Worker.objects.using(database()).alive().filter(pk=worker).update(expires_at=_lease_end()))


def expire(worker: UUID) -> None:
    """A worker stops: whatever it still holds may be taken at once."""
    Worker.objects.using(database()).filter(pk=worker).delete()


def held_by(worker: UUID) -> dict[UUID, tuple[int, UUID | None]]:
    """The threads that name this worker: fence, and the run that somebody asked to stop."""
    rows = Thread.objects.using(database()).filter(holder=worker).values_list("id", "fence", "cancel_mark")
    return {thread: (fence, mark) for thread, fence, mark in rows}


def exists(worker: UUID) -> bool:
    return Worker.objects.using(database()).filter(pk=worker).exists()


def forget_dead() -> None:
    """Remove the rows of processes that died a day ago or earlier."""
    Worker.objects.using(database()).filter(expires_at__lt=Now() - timedelta(days=1)).delete()
