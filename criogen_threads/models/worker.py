"""A process that runs turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from typing import ClassVar


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self) -> WorkerQuerySet:
        """Its lease has not run out, by the database's clock."""
        return self.filter(expires_at__gt=Now())


class Worker(models.Model):
    """One process that runs turns: a new row each time it starts."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveIntegerField(_("process"))
    started_at = models.DateTimeField(_("started"), db_default=Now())
    expires_at = models.DateTimeField(_("expires"))

    objects: ClassVar[models.Manager[Worker]] = WorkerQuerySet.as_manager()

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
