"""What every page of the console stands on."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib import admin, messages
from django.db import transaction
from django.http import Http404, HttpResponseNotAllowed, HttpResponseNotModified
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from criogen_threads import errors, inputs, redaction
from criogen_threads.api.waiting import release
from criogen_threads.engine import telling
from criogen_threads.models import Thread
from criogen_threads.policy import get_policy
from criogen_threads.threads import handle_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase

    AnyModelAdmin = admin.ModelAdmin[Any]
else:
    AnyModelAdmin = admin.ModelAdmin

T = TypeVar("T")

APP = "criogen_threads"

LIVE = ("running",)

FAST, SLOW = 1500, 10_000
"""Milliseconds after which a page asks what has changed: while something is under way, and else."""

EXPLAINED = {
    "thread_busy": gettext_lazy("A run is under way. Cancel it first, or wait for its end."),
    "thread_suspended": gettext_lazy("The thread waits for an approval."),
    "thread_not_found": gettext_lazy("The thread is gone, or not yours to see."),
    "checkpoint_not_found": gettext_lazy("The thread has no such checkpoint."),
    "permission_denied": gettext_lazy("You may not do this."),
    "agent_not_found": gettext_lazy("The site has no agent of this name any more."),
    "too_many_runs": gettext_lazy("You have as many runs under way as one person may have."),
}


def is_staff(user: Any) -> bool:
    return bool(user.is_active and user.is_staff)


def may_enter(user: Any, permissions: Iterable[str]) -> bool:
    """Whether a member of the staff has any of these permissions."""
    return is_staff(user) and any(user.has_perm(f"{APP}.{name}") for name in permissions)


def explain(error: errors.CriogenError) -> str:
    """What was refused, and why, for a member of the staff; who answered and when where somebody has."""
    details = error.details
    if details.get("decided_by") or details.get("decided_at"):
        return _("%(who)s has already answered this: %(when)s") % {
            "who": details.get("decided_by") or _("Somebody"),
            "when": moment(parse_datetime(str(details.get("decided_at") or ""))),
        }
    return str(EXPLAINED.get(error.code, error.shown))


def moment(when: datetime | None) -> str:
    """A date with its time, as this reader writes it."""
    return _("at an unknown time") if when is None else date_format(localtime(when), "DATETIME_FORMAT")


class Console(AnyModelAdmin):
    """An admin that shows rows which only the journal writes.

    A subclass says with ``entry`` which permissions open its list (any of them does; the policy says which rows are
    in it), with ``may_see`` who is shown a row, and with ``row_page`` what its page is.
    """

    entry: tuple[str, ...] = ()

    def may_see(self, user: Any, row: Any) -> bool:
        raise NotImplementedError

    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        raise NotImplementedError

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        user = request.user
        if obj is None:
            return may_enter(user, self.entry)
        return is_staff(user) and self.may_see(user, obj)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: Any = None,  # noqa: ARG002
    ) -> HttpResponse:
        """The page of a row, which is read and never edited."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET"])
        return self.row_page(request, object_id)

    def page(self, request: HttpRequest, template: str, status: int = 200, **context: Any) -> TemplateResponse:
        """One of the console's own pages."""
        request.current_app = self.admin_site.name
        common = {**self.admin_site.each_context(request), "opts": self.model._meta, "media": self.media}
        name = f"criogen_threads/admin/{template}.html"
        return TemplateResponse(request, name, {**common, **context}, status=status)

    @staticmethod
    def refreshed(
        request: HttpRequest, template: str, facts: Iterable[Any], context: Callable[[], dict[str, Any]]
    ) -> HttpResponse:
        """The part of a page that its script asks for again and again; 304 while these facts stay the same."""
        tag = '"' + "-".join(map(str, (*facts, request.user.pk, get_language()))) + '"'
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if request.headers.get("If-None-Match") == tag:
            return HttpResponseNotModified(headers=headers)
        response = render(request, f"criogen_threads/admin/parts/{template}.html", context())
        for name, value in headers.items():
            response.headers[name] = value
        return response

    def own_view(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """A view of the console: staff only, and without a transaction around it, as what it calls has its own."""

        def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return self.admin_site.admin_view(view)(request, *args, **kwargs)

        return transaction.non_atomic_requests(update_wrapper(wrapped, view))

    def seen_thread(self, request: HttpRequest, pk: Any) -> Thread:
        """A thread that this user may read; anything else is not there."""
        wanted = inputs.identifier(pk)
        rows = Thread.objects.select_related("owner", "head", "current_run")
        thread = rows.filter(pk=wanted).first() if wanted else None
        if thread is None or not get_policy().see(request.user, thread):
            raise Http404
        return thread

    def act(self, request: HttpRequest, function: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        """Call something of the Python API; where it refuses, tell this person why and return None."""
        try:
            return self.released(function, *args, **kwargs)
        except errors.CriogenError as error:
            messages.error(request, explain(error))
            return None

    @staticmethod
    def released(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call something that works in other threads, without keeping a connection that they may need."""
        release()
        return function(*args, **kwargs)


def note(thread: Thread, user: Any, action: str, **details: Any) -> None:
    """Put on the thread's own record that a member of the staff did this; gone threads have none."""
    told = {"action": action, "by": user.get_username(), "by_id": str(user.pk), **details}
    site = handle_on(thread, None)
    release()
    try:
        site.create_event_sync("staff_action", told)
    except errors.ThreadNotFoundError:
        return


def standing(thread: Thread) -> telling.Standing:
    """Where a thread stands, in one query."""
    found = telling.standings([thread.key]).get(thread.key)
    if found is None or found.thread_id != thread.pk:
        raise Http404
    return found


def audience(request: HttpRequest, thread: Thread) -> redaction.Audience:
    return redaction.audience(request.user, thread)


def identifier(value: Any) -> UUID:
    """A UUID of the address; anything else is not there."""
    found = inputs.identifier(value)
    if found is None:
        raise Http404
    return found
