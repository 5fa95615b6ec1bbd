"""The queue of approvals: what waits, the oldest first, and what was answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from criogen_threads.admin.ages import age, remaining
from criogen_threads.admin.asking import asker, name_answerers
from criogen_threads.admin.base import APP, may_enter
from criogen_threads.admin.bulk import BulkDecisions
from criogen_threads.admin.filters import AgeFilter, AgentFilter, ByMeFilter, StatusFilter, ToolFilter
from criogen_threads.admin.paging import BoundedPaginator
from criogen_threads.admin.text import arguments, visible
from criogen_threads.models import Approval, Thread, ToolCall
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.utils.safestring import SafeString

MOST_ROWS = 6
"""Arguments that a row of the list shows."""

PARTS = "criogen_threads/admin/parts"

ENTRY = ("decide_toolcall", "view_toolcall", "view_transcript")


def open_approvals() -> QuerySet[ToolCall]:
    """Those that can still be answered."""
    return ToolCall.objects.filter(_is_open())


def _is_open() -> Q:
    in_time = Q(expires_at=None) | Q(expires_at__gt=Now())
    return Q(status=ToolCall.Status.AWAITING_APPROVAL) & in_time


@admin.register(Approval)
class ApprovalAdmin(BulkDecisions):
    """``admin/criogen_threads/approval/``"""

    entry = ENTRY
    list_display_links = None
    list_filter = [StatusFilter, ToolFilter, AgentFilter, AgeFilter, ByMeFilter]
    list_select_related = ["thread", "thread__owner", "message", "run", "run__actor", "run__parent_run", "decided_by"]
    list_per_page = 25
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_max_show_all = 0
    paginator = BoundedPaginator
    sortable_by = ()
    actions = ["approve_selected", "reject_selected"]

    class Media:
        css = {"all": ["criogen_threads/console.css"]}
        js = ["criogen_threads/console.js"]

    # Who may what -------------------------------------------------------------------------------------------------

    def may_see(self, user: Any, row: ToolCall) -> bool:
        policy = get_policy()
        return policy.see(user, row.thread) or policy.decide(user, row, row.thread, row.run)

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """For the actions; each call is asked about when it is answered."""
        return may_enter(request.user, ["decide_toolcall"])

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Approvals of threads that this user may read, and those that are theirs to answer."""
        policy, calls = get_policy(), super().get_queryset(request).exclude(approver="")
        seen = policy.seen(request.user, Thread.objects.all())
        if not seen.query.where:
            return calls  # every thread
        return calls.filter(Q(thread__in=seen) | Q(pk__in=policy.decidable(request.user, calls).values("pk")))

    def get_ordering(self, request: HttpRequest) -> Any:
        """Waiting ones the oldest first, as somebody waits for them; answered ones the newest first."""
        return ["created_at", "pk"] if StatusFilter.chosen(request) == StatusFilter.WAITING else ["-pk"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": _("Approvals"), **(extra_context or {})})

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        shown = super().get_changelist_instance(request)
        name_answerers(shown.result_list)
        return shown

    # Columns -------------------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("tool"))
    def what(self, call: Approval) -> SafeString:
        link = format_html('<a href="{}"><strong>{}</strong></a>', self.address(call), visible(call.name))
        stands = format_html('<span class="criogen-left criogen-call-{}">◔ {}</span>', call.status, _("waiting"))
        if call.status != ToolCall.Status.AWAITING_APPROVAL:
            stands = render_to_string(f"{PARTS}/call_status.html", {"call": call})
        return format_html("{}<br>{}", link, stands)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """The columns; what stands in the one of the arguments depends on who looks."""

        @admin.display(description=gettext_lazy("arguments"))
        def table(call: Approval) -> str:
            view = self.shown_view(request, call)
            edited = view.get("edited_arguments")
            rows = arguments(view["arguments"] if edited is None else edited, short=True)
            context = {"rows": rows[:MOST_ROWS], "left": len(rows[MOST_ROWS:]), "hidden": view.get("hidden")}
            return render_to_string(f"{PARTS}/listed_arguments.html", context)

        return ["what", table, "asked", "waits"]

    @admin.display(description=gettext_lazy("asked by"))
    def asked(self, call: Approval) -> SafeString:
        """Who asked, in which thread, and whom."""
        who = asker(call.run, call.run.actor or call.thread.owner)
        address = reverse(f"{self.admin_site.name}:{APP}_thread_change", args=[call.thread_id])
        above = call.run.parent_run
        agents = call.agent if above is None else f"{above.agent} → {call.agent}"
        return format_html(
            '{}<br><a href="{}">{}</a><br><span class="criogen-quiet">{}</span>',
            who, address, visible(call.thread.key), visible(agents),
        )  # fmt: skip

    @admin.display(description=gettext_lazy("age"))
    def waits(self, call: Approval) -> str:
        context = {"age": age(call.created_at), "left": remaining(call)}
        return render_to_string(f"{PARTS}/age.html", context)

    def address(self, call: ToolCall) -> str:
        """The page of one approval."""
        return reverse(f"{self.admin_site.name}:{APP}_approval_change", args=[call.pk])

    # Addresses -----------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        own = [
            path("answer/", self.own_view(self.bulk_view), name=f"{APP}_approval_bulk"),
            path("<uuid:pk>/live/", self.own_view(self.live_view), name=f"{APP}_approval_live"),
            path("<uuid:pk>/answer/", self.own_view(self.answer_view), name=f"{APP}_approval_answer"),
        ]
        return [*own, *super().get_urls()]

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:  # noqa: ARG002
        """There is no history beside the page itself."""
        messages.info(request, _("Everything about an approval is on its page."))
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:{APP}_approval_change", args=[object_id]))
