"""What was said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from criogen_threads.ids import new_id
from criogen_threads.models.fields import JSONTextField, pointer

if TYPE_CHECKING:
    from datetime import datetime


SUMMARY = "summary"
"""In the metadata of a summary: what it covers."""


class Message(models.Model):
    """One message: append-only, the child of the message before it on its branch."""

    class Role(models.TextChoices):
        USER = "user", _("user")
        ASSISTANT = "assistant", _("assistant")
        TOOL = "tool", _("tool")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    thread = models.ForeignKey("Thread", models.CASCADE, related_name="stored_messages")
    run = pointer("Run")
    role = models.CharField(_("role"), max_length=9, choices=Role)
    content = JSONTextField(_("content"))
    parent = pointer("self")
    position = models.PositiveIntegerField(_("position"))
    agent = models.CharField(_("agent"), max_length=100, default="", blank=True)
    metadata = JSONTextField(_("metadata"), null=True)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        constraints = [
            models.CheckConstraint(
                name="criogen_message_role", condition=models.Q(role__in=["user", "assistant", "tool"])
            ),
        ]

    def __str__(self) -> str:
        return f"{self.position} ({self.role})"

    @property
    def is_beside(self) -> bool:
        """A summary, which stands beside the conversation: it is on no branch."""
        return SUMMARY in (self.metadata or {})

    @property
    def timestamp(self) -> datetime:
        return self.created_at
