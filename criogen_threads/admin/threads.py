"""The list of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.template.loader import render_to_string, select_template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from criogen_threads import payload
from criogen_threads.admin.acting import Acting
from criogen_threads.admin.ages import age
from criogen_threads.admin.base import APP
from criogen_threads.admin.filters import AgentFilter, StateFilter, WaitingFilter
from criogen_threads.admin.paging import BoundedPaginator
from criogen_threads.admin.reading import ReadingPages
from criogen_threads.admin.text import listed, visible
from criogen_threads.models import Thread
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.utils.safestring import SafeString

STOCK_PAGE = "admin/change_form.html"
USER_PAGE = "criogen_threads/admin/user.html"


@admin.register(Thread)
class ThreadAdmin(ReadingPages, Acting):
    """``admin/criogen_threads/thread/``"""

    entry = ("view_thread", "view_transcript")
    list_display = ["link", "stands", "agent", "whose", "last_activity", "tokens"]
    list_display_links = None
    list_filter = [StateFilter, WaitingFilter, AgentFilter]
    list_select_related = ["owner"]
    list_per_page = 50
    ordering = ["-pk"]
    sortable_by = ()
    search_fields = ["key"]
    actions = None  # a thread is deleted on its own page, by the journal
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_max_show_all = 0
    paginator = BoundedPaginator

    class Media:
        css = {"all": ["criogen_threads/console.css"]}
        js = ["criogen_threads/console.js"]

    def may_see(self, user: Any, row: Thread) -> bool:
        return get_policy().see(user, row)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        return lookup in ("owner", "owner__id__exact") or super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Thread]:
        threads = get_policy().seen(request.user, super().get_queryset(request).filter(ephemeral=False))
        return threads.annotate(is_held=Thread.objects.holding()).defer("state", "metadata")

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: QuerySet[Thread],
        search_term: str,
    ) -> tuple[QuerySet[Thread], bool]:
        """By key, by the owner's name, by title."""
        term = search_term.strip().replace("\x00", "")
        if not term:
            return queryset, False
        stored = payload.dumps(term)[1:-1]
        named = queryset.annotate(title_text=Cast("title", TextField()))
        owner = f"owner__{_username()}__icontains"
        return named.filter(Q(key__icontains=term) | Q(**{owner: term}) | Q(title_text__icontains=stored)), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": _("Threads"), **(extra_context or {})})

    def get_urls(self) -> list[Any]:
        """Called when the site is complete: now the page of users can lead to their threads."""
        self._lead_from_users()
        return super().get_urls()

    def _lead_from_users(self) -> None:
        """Give the page of the site's own user model the link that ``auth.User`` has by a template of the package; one
        that has a template of its own is left alone."""
        users = get_user_model()
        if not self.admin_site.is_registered(users):
            return
        page: Any = self.admin_site.get_model_admin(users)
        opts = users._meta
        places = [f"admin/{opts.app_label}/{opts.model_name}", f"admin/{opts.app_label}", "admin"]
        found: Any = select_template([f"{place}/change_form.html" for place in places])
        if page.change_form_template is None and found.template.name == STOCK_PAGE:
            page.change_form_template = USER_PAGE

    # Columns -------------------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("thread"))
    def link(self, thread: Thread) -> SafeString:
        address = reverse(f"{self.admin_site.name}:{APP}_thread_change", args=[thread.pk])
        title = format_html("<br>{}", listed(thread.title)) if thread.title else ""
        return format_html('<a href="{}"><strong>{}</strong></a>{}', address, visible(thread.key), title)

    @admin.display(description=gettext_lazy("status"))
    def stands(self, thread: Thread) -> str:
        return render_to_string(
            "criogen_threads/admin/parts/state.html", {"state": state_of(thread), "pending": thread.pending}
        )

    @admin.display(description=gettext_lazy("owner"))
    def whose(self, thread: Thread) -> SafeString:
        if thread.owner is None:
            return visible(_("a visitor") if thread.visitor else _("nobody"))
        return visible(thread.owner.get_username())

    @admin.display(description=gettext_lazy("last activity"))
    def last_activity(self, thread: Thread) -> str:
        when = thread.last_message_at or thread.created_at
        return _("%(age)s ago") % {"age": age(when)}


def state_of(thread: Thread) -> str:
    """As ``telling.Standing.state``, of a row that knows whether it ``is_held``."""
    if thread.status == Thread.Status.RUNNING and not thread.is_held:  # type: ignore[attr-defined]
        return "interrupted"
    if thread.status == Thread.Status.SUSPENDED and not thread.pending:
        return "running"
    return str(thread.status)


def _username() -> str:
    return str(get_user_model().USERNAME_FIELD)
