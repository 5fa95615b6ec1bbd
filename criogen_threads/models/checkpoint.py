"""A place in a conversation that can be gone back to."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from criogen_threads.ids import new_id
from criogen_threads.models.fields import JSONTextField, pointer


class Checkpoint(models.Model):
    """What one save wrote down: small, append-only, pointing at the last message of that moment."""

    class Status(models.TextChoices):
        IN_PROGRESS = "in_progress", _("in progress")
        SUSPENDED = "suspended", _("suspended")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")

    class Source(models.TextChoices):
        INPUT = "input", _("input")
        STEP = "step", _("step")
        SUSPEND = "suspend", _("suspend")
        FAILURE = "failure", _("failure")
        FORK = "fork", _("fork")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    thread = models.ForeignKey("Thread", models.CASCADE, related_name="checkpoints", db_index=False)
    run = pointer("Run")
    version = models.PositiveBigIntegerField(_("version"))
    status = models.CharField(_("status"), max_length=11, choices=Status)
    source = models.CharField(_("source"), max_length=7, choices=Source)
    step = models.PositiveIntegerField(_("step"), default=0)
    parent = pointer("self")
    message = pointer("Message")
    state = JSONTextField(_("state"), null=True)  # only where it changed
    state_at = pointer("self")  # the checkpoint that changed it last; none: it is empty, or changed here
    agent = models.CharField(_("agent"), max_length=100, default="", blank=True)  # whom the thread went on with
    delegated = JSONTextField(null=True)  # of a suspension: where the specialists stood that it waited for
    cut = models.BooleanField(_("cut off"), db_default=False)  # what was said before it is gone
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("checkpoint")
        verbose_name_plural = _("checkpoints")
        constraints = [
            models.UniqueConstraint("thread", "version", name="criogen_checkpoint_version"),
            models.CheckConstraint(
                name="criogen_checkpoint_status",
                condition=models.Q(status__in=["in_progress", "suspended", "completed", "failed"]),
            ),
            models.CheckConstraint(
                name="criogen_checkpoint_source",
                condition=models.Q(source__in=["input", "step", "suspend", "failure", "fork"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version} ({self.source})"
