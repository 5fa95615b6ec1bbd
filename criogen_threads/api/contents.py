"""What was said and done in a thread: messages, history, events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from django.http import Http404
from rest_framework.response import Response

from criogen_threads import errors, inputs, problems, redaction
from criogen_threads.api import shapes
from criogen_threads.api.base import View
from criogen_threads.api.openapi import describe
from criogen_threads.api.pagination import flag, limit_of, number
from criogen_threads.api.showing import thread_page
from criogen_threads.engine import reads, siblings, transcript
from criogen_threads.engine.journal import branches
from criogen_threads.engine.views import checkpoint_view, message_view
from criogen_threads.models import Checkpoint, Message
from criogen_threads.streaming import rendering

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase
    from rest_framework.request import Request

    from criogen_threads.models import Thread


class Contents(View):
    """``threads/{key}/messages/``, ``history/`` and ``events/``"""

    @describe({200: shapes.MessagePage}, parameters=("before", "limit", "html", "branches"), name="threads_messages")
    def messages(self, request: Request, key: str) -> Response:
        """The conversation, the newest page first; each page oldest first. ``next`` leads to earlier ones."""
        thread = self.thread(key)
        tail = thread.head.message_id if thread.head else None
        start = _before(request, Message, thread) if "before" in request.query_params else tail
        found = branches.messages(start, limit_of(request))
        earlier = found[0].pk if found and found[0].parent_id else None
        views = redaction.messages(map(message_view, found), self.shown_to(thread))
        if flag(request, "html"):
            views = [{**view, "html": _html(view)} for view in views]
        if flag(request, "branches"):
            places = siblings.places(thread, found)
            views = [{**view, **_place(*places[UUID(view["id"])])} for view in views]
        return Response(thread_page(request, thread, views, before=earlier))

    @describe({200: shapes.SiblingPage}, name="threads_siblings")
    def siblings(self, request: Request, key: str, id: str) -> Response:
        """The messages that were said at the same place, on all branches, in the order of their runs."""
        thread = self.thread(key)
        pk = inputs.identifier(id)
        found = siblings.siblings(thread.key, pk) if pk else []
        if not found:
            raise Http404
        return Response(thread_page(request, thread, redaction.messages(found, self.shown_to(thread)), before=None))

    @describe({200: shapes.CheckpointPage}, parameters=("before", "limit"), name="threads_history")
    def history(self, request: Request, key: str) -> Response:
        """The checkpoints from the head back, newest first; what was said is not in them."""
        thread = self.thread(key)
        start = _before(request, Checkpoint, thread) if "before" in request.query_params else thread.head_id
        found = branches.ancestors(Checkpoint, start, limit_of(request))
        earlier = found[-1].pk if found and found[-1].parent_id else None
        return Response(thread_page(request, thread, list(map(checkpoint_view, found)), before=earlier))

    @describe({200: shapes.EventPage}, parameters=("after", "limit", "type", "agent", "run"), name="threads_events")
    def events(self, request: Request, key: str) -> Response:
        """The events after ``after``, in order; with ``Accept: text/event-stream`` they are streamed."""
        thread = self.thread(key)
        limit = limit_of(request)
        found = reads.events_after(thread.pk, number(request, "after", 0), limit + 1, **_filters(request))
        more = found[limit - 1]["seq"] if len(found) > limit else None
        views = redaction.events(found[:limit], self.shown_to(thread))
        return Response(thread_page(request, thread, views, after=more))


def _html(view: dict[str, Any]) -> str | None:
    """An answer's Markdown as sanitised HTML; None for what is to stay plain."""
    text = transcript.text_of(view["content"]) if view["role"] == "assistant" else ""
    return rendering.rendered_here(text) if text else None


def _place(index: int, count: int) -> dict[str, int]:
    return {"index": index, "siblings": count}


def _before(request: Request, model: Any, thread: Thread) -> UUID | None:
    """The parent of the row that ``before`` names."""
    pk = inputs.identifier(request.query_params["before"])
    row = model.objects.filter(thread=thread.pk, pk=pk).only("parent").first() if pk else None
    if row is None:
        raise errors.InvalidOptionError("before is from the next of a page")
    parent: UUID | None = row.parent_id
    return parent


def _filters(request: Request) -> dict[str, Any]:
    query = request.query_params
    filters: dict[str, Any] = {name: query[name] for name in ("type", "agent") if name in query}
    if not all(map(inputs.is_name, filters.values())):
        raise errors.InvalidOptionError("a type and an agent are text")
    if "run" in query:
        filters["run"] = inputs.identifier(query["run"])
        if filters["run"] is None:
            raise errors.InvalidOptionError("run is the id of one")
    return filters


# The stream at the same address --------------------------------------------------------------------------------

_pages: Any = Contents.as_view({"get": "events"})


@transaction.non_atomic_requests
async def events(request: HttpRequest, key: str) -> HttpResponseBase:
    """Pages of JSON, or a stream of server-sent events for those who accept one and an ASGI server."""
    if request.method != "GET" or not _wants_stream(request):
        answer: HttpResponseBase = await sync_to_async(_pages)(request, key=key)
        return answer
    if not isinstance(request, ASGIRequest):
        return problems.response(errors.AsgiRequiredError())
    from criogen_threads.streaming import sse  # the feed is started by those who need it

    stream: HttpResponseBase = await sse.events(request, key)
    return stream


# What describes the pages describes this view, too.
events.__dict__.update({name: value for name, value in vars(_pages).items() if name != "__wrapped__"})
assert iscoroutinefunction(events)  # noqa: S101


def _wants_stream(request: HttpRequest) -> bool:
    return "text/event-stream" in request.headers.get("Accept", "")
