"""What happened, in order."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from criogen_threads.ids import new_id
from criogen_threads.models.fields import JSONTextField, pointer


class Event(models.Model):
    """One thing that happened in a thread; saved together with the rows that it speaks of.

    It refers to the message or the tool call and copies none of their content.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    thread = models.ForeignKey("Thread", models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveBigIntegerField(_("number"))
    type = models.CharField(_("type"), max_length=50)
    run = pointer("Run")
    agent = models.CharField(_("agent"), max_length=100, default="", blank=True)
    parent = pointer("self")
    details = JSONTextField(_("details"), null=True)
    message = pointer("Message")
    tool_call = pointer("ToolCall")
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        constraints = [models.UniqueConstraint("thread", "seq", name="criogen_event_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"
