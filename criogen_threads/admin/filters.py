"""Filters of the lists. None of them asks the table which values it has: that would read all of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from criogen_threads.agents import all_agents
from criogen_threads.models import Thread, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet
    from django.http import HttpRequest

AGES = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}


class _Filter(admin.SimpleListFilter):
    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else self.narrowed(request, queryset, value)

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        raise NotImplementedError


class StatusFilter(_Filter):
    """Waiting (what the list begins with), answered, lapsed, or all."""

    title = gettext_lazy("status")
    parameter_name = "status"
    WAITING = "waiting"

    @classmethod
    def chosen(cls, request: HttpRequest) -> str:
        return request.GET.get(cls.parameter_name) or cls.WAITING

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [
            ("approved", _("Approved")),
            ("rejected", _("Rejected")),
            ("lapsed", _("Expired or void")),
            ("all", _("All")),
        ]

    def choices(self, changelist: Any) -> Any:
        first, *rest = super().choices(changelist)
        yield {**first, "display": _("Waiting")}
        yield from rest

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        match self.value():
            case "all":
                return queryset
            case "approved":
                return queryset.filter(approved=True)
            case "rejected":
                return queryset.filter(approved=False)
            case "lapsed":
                return queryset.filter(status__in=[ToolCall.Status.EXPIRED, ToolCall.Status.VOID], decided_at=None)
        return queryset.filter(status=ToolCall.Status.AWAITING_APPROVAL)


class ToolFilter(_Filter):
    title = gettext_lazy("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        names = {tool.name for agent in all_agents() for tool in agent.tools.values() if tool.approval}
        return [(name, name) for name in sorted(names)]

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], value: str) -> QuerySet[Any]:  # noqa: ARG002
        return rows.filter(name=value)


class AgentFilter(_Filter):
    """Works on approvals, by the agent of their run, and on threads."""

    title = gettext_lazy("agent")
    parameter_name = "agent"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(agent.name, agent.name) for agent in all_agents()]

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], value: str) -> QuerySet[Any]:  # noqa: ARG002
        return rows.filter(agent=value) if rows.model is Thread else rows.filter(run__agent=value)


class AgeFilter(_Filter):
    title = gettext_lazy("age")
    parameter_name = "age"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [("hour", _("Over an hour")), ("day", _("Over a day")), ("week", _("Over a week"))]

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], value: str) -> QuerySet[Any]:  # noqa: ARG002
        return rows.filter(created_at__lte=now() - AGES.get(value, timedelta()))


class ByMeFilter(_Filter):
    title = gettext_lazy("answered by")
    parameter_name = "by"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [("me", _("Me"))]

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], value: str) -> QuerySet[Any]:  # noqa: ARG002
        return rows.filter(decided_by=request.user)


class StateFilter(_Filter):
    """The states of threads that people ask for: "interrupted" is derived, the others are stored."""

    title = gettext_lazy("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [
            *((value, str(label).capitalize()) for value, label in Thread.Status.choices),
            ("interrupted", _("Interrupted")),
        ]

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], value: str) -> QuerySet[Any]:  # noqa: ARG002
        if value == "interrupted":
            return rows.interrupted()  # type: ignore[attr-defined, no-any-return]
        return rows.filter(status=value)


class WaitingFilter(_Filter):
    title = gettext_lazy("waiting approvals")
    parameter_name = "waiting"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [("yes", _("Some"))]

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], value: str) -> QuerySet[Any]:  # noqa: ARG002
        return rows.filter(status=Thread.Status.SUSPENDED, pending__gt=0)
