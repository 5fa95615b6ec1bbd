"""The pages of one thread: its story, its runs, its history, its events. Each is one page of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpResponse
from django.urls import path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext as _

from criogen_threads.admin import branching, happenings, measures
from criogen_threads.admin.asking import askers
from criogen_threads.admin.base import APP, FAST, LIVE, SLOW, Console, audience, identifier, standing
from criogen_threads.admin.story import Story, story
from criogen_threads.admin.text import listed, visible
from criogen_threads.engine import reads
from criogen_threads.models import Message, Run, Thread
from criogen_threads.policy import get_policy
from criogen_threads.threads import handle_on

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest

    from criogen_threads.engine.telling import Standing

VERBS = ("rewind", "retry", "cancel", "delete")


class ReadingPages(Console):
    """What is read of a thread."""

    object_history_template = "criogen_threads/admin/staff_log.html"

    def get_urls(self) -> list[Any]:
        def page(address: str, view: Any, name: str) -> Any:
            return path(f"<uuid:pk>/{address}/", self.own_view(view), name=f"{APP}_thread_{name}")

        own = [
            page("live", self.live_view, "live"),
            page("runs", self.runs_view, "runs"),
            page("branches", self.branches_view, "branches"),
            page("differences", self.differences_view, "differences"),
            page("events", self.events_view, "events"),
            path("<uuid:pk>/runs/<uuid:run>/", self.own_view(self.run_view), name=f"{APP}_thread_run"),
            path("<uuid:pk>/messages/<uuid:message>/", self.own_view(self.message_view), name=f"{APP}_thread_message"),
        ]
        return [*own, *super().get_urls()]

    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The story."""
        thread = self.seen_thread(request, object_id)
        return self.page(request, "thread", **self.around(request, thread, "story"), **self._story(request, thread))

    def live_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """What changes on the story's page, for its script; 304 while nothing did."""
        thread = self.seen_thread(request, pk)
        stands = standing(thread)
        facts = (stands.thread_id, stands.seq, stands.state, stands.pending, audience(request, thread).staff)

        def context() -> dict[str, Any]:
            return {**self.around(request, thread, "story", stands), **self._story(request, thread)}

        return self.refreshed(request, "live", facts, context)

    def around(self, request: HttpRequest, thread: Thread, tab: str, stands: Standing | None = None) -> dict[str, Any]:
        """What every page of a thread shows: its name, where it stands, what may be done."""
        stands = stands or standing(thread)
        failed = thread.current_run if thread.status == Thread.Status.FAILED else None
        allowed = {verb: getattr(get_policy(), verb)(request.user, thread) for verb in VERBS}
        offers = [verb for verb in _fitting(thread, stands) if allowed[verb]]
        live = stands.state in LIVE
        return {
            "title": self._title(tab) % {"key": thread.key},
            "thread": thread,
            "caller": self._caller(request, thread),
            "readable": tab != "story",
            "key": visible(thread.key),
            "subtitle": None,
            "heading": listed(thread.title) if thread.title else "",
            "tab": tab,
            "state": stands.state,
            "live": live,
            "live_url": reverse(f"{self.admin_site.name}:{APP}_thread_live", args=[thread.pk]),
            "every": None if request.GET.get("before") else FAST if live else SLOW,
            "waiting": reads.pending(thread.pk, thread.current_run_id)[:20] if stands.pending else [],
            "failed": failed,
            "failed_text": visible(gettext(str(failed.error_message))) if failed else "",
            "allowed": allowed,
            "offers": offers,
            "offered": " ".join(offers),
        }

    @staticmethod
    def _caller(request: HttpRequest, thread: Thread) -> Thread | None:
        """The conversation whose agent asked this one's."""
        above = Thread.objects.filter(pk=thread.parent_id).first() if thread.parent_id else None
        return above if above is not None and get_policy().see(request.user, above) else None

    @staticmethod
    def _title(tab: str) -> str:
        titles = {"runs": _("Runs of %(key)s"), "branches": _("History of %(key)s"), "events": _("Events of %(key)s")}
        return titles.get(tab, _("Thread %(key)s"))

    def _story(self, request: HttpRequest, thread: Thread) -> dict[str, Any]:
        tail, before = thread.head.message_id if thread.head else None, request.GET.get("before")
        if before:
            message = Message.objects.filter(thread=thread.pk, pk=identifier(before)).first()
            if message is None:
                raise Http404
            tail = message.pk
        told: Story = story(thread, tail, audience(request, thread))
        return {"story": told, "before": before}

    def message_view(self, request: HttpRequest, pk: UUID, message: UUID) -> HttpResponse:
        """One message with everything in it."""
        thread = self.seen_thread(request, pk)
        if not Message.objects.filter(thread=thread.pk, pk=message).exists():
            raise Http404
        told = story(thread, message, audience(request, thread), limit=1, short=None)
        return self.page(request, "message", **self.around(request, thread, "story"), story=told)

    def runs_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The runs, newest first, with how long they took and what they used."""
        thread = self.seen_thread(request, pk)
        runs = measures.page(thread, number(request, "before"))
        return self.page(request, "runs", **self.around(request, thread, "runs"), runs=runs)

    def run_view(self, request: HttpRequest, pk: UUID, run: UUID) -> HttpResponse:
        """What happened in one run, as a tree with durations, also below it."""
        thread = self.seen_thread(request, pk)
        found = Run.objects.select_related("thread", "actor").filter(thread=thread.pk, pk=run).first()
        if found is None:
            raise Http404
        shown: dict[str, Any] = {
            "run": found,
            "askers": askers(thread, found, None),
            "measured": measures.of_run(found),
            "events": happenings.of_turn(found, audience(request, thread)),
        }
        return self.page(request, "run", **self.around(request, thread, "runs"), **shown)

    def branches_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The checkpoints as a tree, newest first."""
        thread = self.seen_thread(request, pk)
        tree = branching.page(thread, number(request, "before"))
        return self.page(request, "branches", **self.around(request, thread, "branches"), tree=tree)

    def differences_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """What one checkpoint has that another has not."""
        thread = self.seen_thread(request, pk)
        pair = [branching.checkpoint(thread, identifier(request.GET.get(name))) for name in ("from", "to")]
        found = branching.differences(thread, pair[0], pair[1], audience(request, thread))
        return self.page(request, "differences", **self.around(request, thread, "branches"), found=found)

    def events_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The events in order, each below the one that it follows from."""
        thread = self.seen_thread(request, pk)
        told = happenings.page(thread, number(request, "after") or 0, audience(request, thread))
        chain = request.GET.get("chain")
        lines = happenings.chain(handle_on(thread, request.user), thread, identifier(chain)) if chain else ""
        return self.page(request, "events", **self.around(request, thread, "events"), events=told, chain=lines)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Who of the staff did what: the admin's own log of this thread."""
        thread = self.seen_thread(request, object_id)
        shown = {**self.around(request, thread, "log"), "media": self.media}
        return super().history_view(request, object_id, {**shown, **(extra_context or {})})


def _fitting(thread: Thread, stands: Standing) -> list[str]:
    """What can be done with the thread as it stands."""
    goes_on = stands.state in ("failed", "interrupted") or (thread.head is not None and thread.head.source == "fork")
    can = {
        "retry": goes_on and stands.state not in ("running", "suspended"),
        "cancel": stands.state in ("running", "suspended", "interrupted"),
    }
    return [verb for verb, fits in can.items() if fits]


def number(request: HttpRequest, name: str) -> int | None:
    """A whole number of the address; None where there is none."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
