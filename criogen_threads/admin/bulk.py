"""Answering several approvals: a page that lists each call in full, and a report of each outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from criogen_threads import inputs
from criogen_threads.admin.base import APP, explain
from criogen_threads.admin.deciding import Deciding, tool_of
from criogen_threads.admin.text import Argument, arguments, visible
from criogen_threads.models import ToolCall
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.utils.safestring import SafeString

MOST = 100
"""Approvals that are answered at once."""

VERBS = ("approve", "reject")


@dataclass(frozen=True, slots=True)
class Item:
    """One call of the page; ``refused`` says why this person does not answer it here."""

    call: ToolCall
    name: SafeString
    key: SafeString
    rows: list[Argument]
    refused: str = ""
    outcome: str = ""
    done: bool = False


class BulkDecisions(Deciding):
    """The actions of the list, and ``approval/answer/``."""

    @admin.action(permissions=["decide"], description=gettext_lazy("Approve the selected calls"))
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._confirm(request, queryset, "approve")

    @admin.action(permissions=["decide"], description=gettext_lazy("Reject the selected calls"))
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._confirm(request, queryset, "reject")

    def _confirm(self, request: HttpRequest, queryset: QuerySet[Any], verb: str) -> HttpResponse | None:
        calls = list(queryset[: MOST + 1])
        if len(calls) > MOST:
            messages.error(request, _("At most %(most)d calls are answered at once.") % {"most": MOST})
            return None
        title = _("Approve these calls?") if verb == "approve" else _("Reject these calls?")
        items = [self._item(request, call, verb) for call in calls]
        some = any(not item.refused for item in items)
        return self.page(request, "bulk", title=title, items=items, verb=verb, some=some)

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        """Answer each call on its own, and say what became of it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        verb = request.POST.get("verb", "")
        if verb not in VERBS or not self.has_view_permission(request):
            raise PermissionDenied
        ids = [inputs.identifier(text) for text in request.POST.getlist("call")[:MOST]]
        if not any(ids):
            return HttpResponseRedirect(reverse(f"{self.admin_site.name}:{APP}_approval_changelist"))
        related = self.list_select_related
        calls = self.get_queryset(request).filter(pk__in=filter(None, ids)).select_related(*related)  # type: ignore[misc]
        items = list(self._outcomes(request, calls.order_by("pk"), verb))
        return self.page(request, "bulk", title=_("What became of each call"), items=items, verb=verb, report=True)

    def _outcomes(self, request: HttpRequest, calls: Iterable[ToolCall], verb: str) -> Iterable[Item]:
        decision = {"approve": verb == "approve", "reason": request.POST.get("reason", "")}
        for call in list(calls):
            item = self._item(request, call, verb, closed=False)
            if not item.refused:
                error = self.try_to_decide(request, call, decision, request.POST.get(f"digest-{call.pk}", ""))
                said = _("approved") if decision["approve"] else _("rejected")
                outcome = said if error is None else explain(error)
                item = Item(call, item.name, item.key, item.rows, outcome=outcome, done=error is None)
            yield item

    def _item(self, request: HttpRequest, call: ToolCall, verb: str, *, closed: bool = True) -> Item:
        view = self.shown_view(request, call)
        refused = ""
        if closed and call.status != ToolCall.Status.AWAITING_APPROVAL:
            refused = _("It does not wait any more: %(status)s.") % {"status": call.get_status_display()}
        elif not get_policy().decide(request.user, call, call.thread, call.run):
            refused = _("It is not yours to answer.")
        elif verb == "approve" and (view.get("hidden") or tool_of(call) is None):
            refused = _("Its tool is gone, so that its arguments cannot be shown.")
        return Item(call, visible(call.name), visible(call.thread.key), arguments(view["arguments"]), refused)
