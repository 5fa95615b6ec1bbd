"""One turn of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from criogen_threads.errors import InvalidTransitionError
from criogen_threads.ids import new_id
from criogen_threads.models.fields import JSONTextField, pointer

if TYPE_CHECKING:
    from typing import ClassVar


class RunQuerySet(models.QuerySet["Run"]):
    def queued(self) -> RunQuerySet:
        """Waiting for their turn, first in line first: those that interrupt, then in order of arrival."""
        return self.filter(status=Run.Status.QUEUED).order_by("-urgent", "number")


class Run(models.Model):
    """One turn: a message of the user and everything until the agent is done with it."""

    class Status(models.TextChoices):
        QUEUED = "queued", _("queued")
        IN_PROGRESS = "in_progress", _("in progress")
        REQUIRES_ACTION = "requires_action", _("requires action")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")

    TRANSITIONS: ClassVar[dict[str, frozenset[str]]] = {
        Status.QUEUED: frozenset({Status.IN_PROGRESS, Status.FAILED}),
        Status.IN_PROGRESS: frozenset({Status.REQUIRES_ACTION, Status.COMPLETED, Status.FAILED}),
        Status.REQUIRES_ACTION: frozenset({Status.IN_PROGRESS, Status.FAILED}),
        Status.FAILED: frozenset({Status.IN_PROGRESS}),  # retry
        Status.COMPLETED: frozenset(),
    }

    UNFINISHED: ClassVar[tuple[str, ...]] = (Status.IN_PROGRESS, Status.REQUIRES_ACTION)
    """Begun, and not ended."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    thread = models.ForeignKey("Thread", models.CASCADE, related_name="runs", db_index=False)
    number = models.PositiveBigIntegerField(_("number"))
    status = models.CharField(_("status"), max_length=15, choices=Status, default=Status.QUEUED)
    agent = models.CharField(_("agent"), max_length=100)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False,
        verbose_name=_("actor"),
    )  # fmt: skip
    visitor = models.CharField(_("visitor"), max_length=64, default="", db_default="", blank=True, editable=False)
    address = models.CharField(_("address"), max_length=64, default="", db_default="", blank=True, editable=False)
    input = JSONTextField(_("input"), null=True)
    state = JSONTextField(_("state"), null=True)
    locale = models.CharField(_("locale"), max_length=35, default="", blank=True)
    attempt = models.PositiveIntegerField(_("attempt"), default=1)
    client_id = models.CharField(_("client id"), max_length=200, null=True, blank=True)  # noqa: DJ001 (unique)
    error_code = models.CharField(_("error code"), max_length=50, default="", blank=True)
    error_message = JSONTextField(_("error message"), default="", blank=True)
    usage = JSONTextField(_("usage"), default=dict)
    forked_from = pointer("Run")
    parent_run = pointer("Run")
    created_at = models.DateTimeField(_("created"), db_default=Now())
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    completed_at = models.DateTimeField(_("completed"), null=True, blank=True)

    # Waiting in line
    urgent = models.BooleanField(default=False)
    waiter = models.UUIDField(null=True, editable=False)
    wait_until = models.DateTimeField(null=True, editable=False)

    # Where this attempt began: limits count from here
    first_step = models.PositiveIntegerField(default=0, editable=False)
    first_tokens = models.PositiveBigIntegerField(default=0, editable=False)

    objects: ClassVar[models.Manager[Run]] = RunQuerySet.as_manager()

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        permissions = [("cancel_run", _("Can cancel a run")), ("retry_run", _("Can retry a run"))]
        indexes = [
            models.Index("thread", "number", name="criogen_run_queued", condition=models.Q(status="queued")),
            models.Index("parent_run", name="criogen_run_delegated", condition=models.Q(parent_run__isnull=False)),
        ]
        constraints = [
            models.UniqueConstraint("thread", "number", name="criogen_run_number"),
            models.UniqueConstraint(
                "thread",
                "client_id",
                name="criogen_run_client_id",
                condition=models.Q(client_id__isnull=False),
            ),
            models.UniqueConstraint(
                "thread", name="criogen_run_one_in_progress", condition=models.Q(status="in_progress")
            ),
            models.CheckConstraint(
                name="criogen_run_status",
                condition=models.Q(status__in=["queued", "in_progress", "requires_action", "completed", "failed"]),
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.number}"

    @classmethod
    def check_transition(cls, old: str, new: str) -> None:
        """Refuse a step that the life of a run does not have.

        Raises:
            InvalidTransitionError: ``invalid_transition``.
        """
        if new not in cls.TRANSITIONS[old]:
            raise InvalidTransitionError(f"a run cannot go from {old} to {new}")

    @property
    def last_error(self) -> str:
        return str(self.error_message)

    @property
    def tokens(self) -> int:
        """Input and output tokens of all model requests of this run."""
        usage: dict[str, Any] = self.usage
        return int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))
