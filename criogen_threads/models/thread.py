"""A conversation: who holds it, where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from criogen_threads.ids import new_id
from criogen_threads.models.fields import JSONTextField, pointer
from criogen_threads.models.worker import Worker

if TYPE_CHECKING:
    from typing import ClassVar


class ThreadQuerySet(models.QuerySet["Thread"]):
    """Threads by the states that people ask for."""

    @staticmethod
    def holding() -> models.Exists:
        """Whether a living process works on it: to filter by, and to annotate with."""
        return models.Exists(Worker.objects.alive().filter(pk=models.OuterRef("holder")))

    def held(self) -> ThreadQuerySet:
        """A living process works on it."""
        return self.filter(self.holding())

    def interrupted(self) -> ThreadQuerySet:
        """Its run is unfinished, and the process that ran it is gone. Derived, never stored."""
        return self.filter(~self.holding(), status=Thread.Status.RUNNING)

    def due(self) -> ThreadQuerySet:
        """Suspended with every approval answered, and not yet taken up again."""
        return self.filter(status=Thread.Status.SUSPENDED, pending=0)


class Thread(models.Model):
    """One conversation with an agent. Written by the journal only."""

    class Status(models.TextChoices):
        IDLE = "idle", _("idle")
        RUNNING = "running", _("running")
        SUSPENDED = "suspended", _("suspended")
        FAILED = "failed", _("failed")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    key = models.CharField(_("key"), max_length=200, unique=True)
    agent = models.CharField(_("agent"), max_length=100)
    parent = pointer("self")  # the conversation whose agent asked this one's; people speak in that one
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+",
        verbose_name=_("owner"),
    )  # fmt: skip
    visitor = models.CharField(_("visitor"), max_length=64, default="", db_default="", blank=True, editable=False)
    title = JSONTextField(_("title"), default="")
    metadata = JSONTextField(_("metadata"), default=dict)
    status = models.CharField(_("status"), max_length=9, choices=Status, default=Status.IDLE)
    state = JSONTextField(_("state"), default=dict)
    ephemeral = models.BooleanField(_("ephemeral"), default=False)
    pending = models.PositiveIntegerField(_("waiting approvals"), default=0)
    tokens = models.PositiveBigIntegerField(_("tokens"), default=0)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    last_message_at = models.DateTimeField(_("last message"), null=True, editable=False)

    # Where it stands
    current_run = pointer("Run")
    head = pointer("Checkpoint")
    version = models.PositiveBigIntegerField(_("version"), default=0)
    event_seq = models.PositiveBigIntegerField(default=0)

    # The lease
    holder = models.UUIDField(null=True, editable=False)
    fence = models.PositiveBigIntegerField(default=0, editable=False)
    cancel_mark = models.UUIDField(null=True, editable=False)

    objects: ClassVar[models.Manager[Thread]] = ThreadQuerySet.as_manager()

    class Meta:
        verbose_name = _("thread")
        verbose_name_plural = _("threads")
        permissions = [
            ("rewind_thread", _("Can rewind a thread")),
            ("view_transcript", _("Can read what was said in a thread")),
        ]
        indexes = [
            models.Index("holder", name="criogen_thread_held", condition=models.Q(holder__isnull=False)),
            models.Index("visitor", name="criogen_thread_visitor", condition=~models.Q(visitor="")),
        ]
        constraints = [
            models.UniqueConstraint(
                "parent", "agent", name="criogen_thread_delegated", condition=models.Q(parent__isnull=False)
            ),
            models.CheckConstraint(
                name="criogen_thread_status",
                condition=models.Q(status__in=["idle", "running", "suspended", "failed"]),
            ),
            models.CheckConstraint(
                name="criogen_thread_holder_runs",
                condition=models.Q(holder=None) | models.Q(status="running"),
            ),
        ]

    def __str__(self) -> str:
        return self.key
