"""The pages of one thread: its story, its runs, its history, its events. Each is one page of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpResponse, HttpResponseNotAllowed, HttpResponseNotModified
from django.shortcuts import render
from django.urls import path
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from criogen_threads import redaction
from criogen_threads.admin import branching, happenings, measures
from criogen_threads.admin.base import APP, Console, audience, handle_on, identifier, standing
from criogen_threads.admin.story import Story, story
from criogen_threads.admin.text import listed, visible
from criogen_threads.models import Message, Thread, ToolCall
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest

    from criogen_threads.engine.telling import Standing

LIVE = ("running",)


class ReadingPages(Console):
    """What is read of a thread."""

    def get_urls(self) -> list[Any]:
        def page(address: str, view: Any, name: str) -> Any:
            return path(f"<uuid:pk>/{address}/", self.own_view(view), name=f"{APP}_thread_{name}")

        own = [
            page("live", self.live_view, "live"),
            page("runs", self.runs_view, "runs"),
            page("branches", self.branches_view, "branches"),
            page("differences", self.differences_view, "differences"),
            page("events", self.events_view, "events"),
            path("<uuid:pk>/messages/<uuid:message>/", self.own_view(self.message_view), name=f"{APP}_thread_message"),
        ]
        return [*own, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: Any = None,  # noqa: ARG002
    ) -> HttpResponse:
        """The story."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET"])
        thread = self.seen_thread(request, object_id)
        return self.page(request, "thread", **self.around(request, thread, "story"), **self._story(request, thread))

    def live_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """What changes on the story's page, for its script; 304 while nothing did."""
        thread = self.seen_thread(request, pk)
        stands = standing(thread)
        tag = self._tag(request, thread, stands)
        if request.headers.get("If-None-Match") == tag:
            return HttpResponseNotModified(headers={"ETag": tag, "Cache-Control": "private, no-cache"})
        context = {**self.around(request, thread, "story", stands), **self._story(request, thread)}
        response = render(request, "criogen_threads/admin/parts/live.html", context)
        response.headers["ETag"] = tag
        response.headers["Cache-Control"] = "private, no-cache"
        return response

    @staticmethod
    def _tag(request: HttpRequest, thread: Thread, stands: Standing) -> str:
        seen = redaction.audience(request.user, thread).staff
        parts = (stands.thread_id, stands.seq, stands.state, stands.pending, request.user.pk, seen, get_language())
        return '"' + "-".join(map(str, parts)) + '"'

    def around(self, request: HttpRequest, thread: Thread, tab: str, stands: Standing | None = None) -> dict[str, Any]:
        """What every page of a thread shows: its name, where it stands, what may be done."""
        policy, user = get_policy(), request.user
        stands = stands or standing(thread)
        head = thread.head
        goes_on = stands.state in ("failed", "interrupted") or (head is not None and head.source == "fork")
        waiting = ToolCall.objects.awaiting_approval().filter(thread=thread.pk, run=thread.current_run_id)
        return {
            "title": self._title(tab) % {"key": thread.key},
            "thread": thread,
            "readable": tab != "story",
            "key": visible(thread.key),
            "subtitle": None,
            "heading": listed(thread.title) if thread.title else "",
            "tab": tab,
            "stands": stands,
            "state": stands.state,
            "live": stands.state in LIVE,
            "waiting": list(waiting.order_by("step", "index")[:20]) if stands.pending else [],
            "failed": thread.current_run if thread.status == Thread.Status.FAILED else None,
            "may_retry": goes_on and stands.state not in ("running", "suspended") and policy.retry(user, thread),
            "may_cancel": stands.state in ("running", "suspended", "interrupted") and policy.cancel(user, thread),
            "may_rewind": policy.rewind(user, thread),
            "may_delete": policy.delete(user, thread),
            "may_send": policy.send(user, thread),
        }

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


def number(request: HttpRequest, name: str) -> int | None:
    """A whole number of the address; None where there is none."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
