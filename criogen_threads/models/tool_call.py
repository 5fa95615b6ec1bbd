"""A tool call that the model asked for, and the answer of the person who had to approve it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from criogen_threads.ids import new_id
from criogen_threads.models.fields import JSONTextField, pointer
from criogen_threads.models.run import Run

if TYPE_CHECKING:
    from typing import Any, ClassVar


class ToolCallQuerySet(models.QuerySet["ToolCall"]):
    def awaiting_approval(self) -> ToolCallQuerySet:
        return self.filter(status=ToolCall.Status.AWAITING_APPROVAL)

    def waiting(self) -> ToolCallQuerySet:
        """Another agent was asked, and its run waits for people."""
        return self.filter(status=ToolCall.Status.WAITING)

    def rested(self) -> ToolCallQuerySet:
        """Waiting for a run that does not wait for anybody any more: answered, ended, gone, or not there yet."""
        asleep = Run.objects.filter(
            pk=models.OuterRef("child_run"), status=Run.Status.REQUIRES_ACTION, thread__pending__gt=0,
            thread__current_run=models.F("pk"),
        )  # fmt: skip
        return self.waiting().filter(~models.Exists(asleep))

    def expired(self) -> ToolCallQuerySet:
        """Nobody answered in time, by the database's clock."""
        return self.awaiting_approval().filter(expires_at__lte=Now())


class ToolCall(models.Model):
    """One try of one tool call of one run.

    ``run``, ``step`` and ``index`` say which call it is; ``try_number`` grows when a person must decide again.
    ``call_id`` is the provider's own, which repeats, even within a conversation: it is never a key.
    """

    class Status(models.TextChoices):
        READY = "ready", _("ready")
        AWAITING_APPROVAL = "awaiting_approval", _("awaiting approval")
        RUNNING = "running", _("running")
        WAITING = "waiting", _("waiting for another agent")
        DONE = "done", _("done")
        ERROR = "error", _("error")
        REJECTED = "rejected", _("rejected")
        EXPIRED = "expired", _("expired")
        UNKNOWN = "unknown", _("unknown")
        VOID = "void", _("void")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    thread = models.ForeignKey("Thread", models.CASCADE, related_name="tool_calls", db_index=False)
    run = pointer("Run", null=False)
    message = pointer("Message", null=False)
    step = models.PositiveIntegerField(_("step"))
    index = models.PositiveIntegerField(_("index"))
    try_number = models.PositiveIntegerField(_("try"), default=1)
    call_id = models.CharField(_("provider's call id"), max_length=200)
    name = models.CharField(_("tool"), max_length=100)
    arguments = JSONTextField(_("arguments"))
    status = models.CharField(_("status"), max_length=17, choices=Status, default=Status.READY)
    child_run = pointer("Run")
    child_checkpoint = pointer("Checkpoint")  # after a rewind: where the specialist goes on from
    result = pointer("Message")
    created_at = models.DateTimeField(_("created"), db_default=Now())
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    # The approval
    approver = models.CharField(_("who may answer"), max_length=100, default="", blank=True)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    arguments_digest = models.CharField(_("digest of the arguments"), max_length=64, default="", blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False,
        verbose_name=_("decided by"),
    )  # fmt: skip
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    approved = models.BooleanField(_("approved"), null=True)
    reason = JSONTextField(_("reason"), default="", blank=True)
    edited_arguments = JSONTextField(_("edited arguments"), null=True, blank=True)

    objects: ClassVar[models.Manager[ToolCall]] = ToolCallQuerySet.as_manager()

    class Meta:
        verbose_name = _("tool call")
        verbose_name_plural = _("tool calls")
        permissions = [("decide_toolcall", _("Can answer an approval"))]
        indexes = [
            models.Index("created_at", name="criogen_call_awaiting", condition=models.Q(status="awaiting_approval")),
            models.Index("thread", name="criogen_call_waiting", condition=models.Q(status="waiting")),
        ]
        constraints = [
            models.UniqueConstraint(
                "thread", "message", "index", "run", "try_number", name="criogen_call_try"
            ),
            models.CheckConstraint(
                name="criogen_call_status",
                condition=models.Q(
                    status__in=[
                        "ready", "awaiting_approval", "running", "waiting", "done", "error", "rejected",
                        "expired", "unknown", "void",
                    ]
                ),
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.name

    @property
    def agent(self) -> str:
        """Whose call it is, and so whose tool: the agent that asked for it. A hand-over gives its run another one."""
        return str(self.message.agent or self.run.agent)

    @property
    def effective_arguments(self) -> Any:
        """The arguments that the tool runs with: those that a person edited, else the model's."""
        return self.arguments if self.edited_arguments is None else self.edited_arguments


class Approval(ToolCall):
    """A tool call that needs a person, or needed one: the console's name for it."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
