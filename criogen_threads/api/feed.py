"""The feed for clients that have neither a websocket nor a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.response import Response

from criogen_threads.api import shapes, waiting
from criogen_threads.api.base import View, apart
from criogen_threads.api.openapi import describe
from criogen_threads.api.pagination import flag, number, page
from criogen_threads.engine import background
from criogen_threads.streaming.polling import Place, poll
from criogen_threads.streaming.showing import Viewer

if TYPE_CHECKING:
    from rest_framework.request import Request


class Polls(View):
    """``threads/{key}/feed/``"""

    @describe({200: shapes.FeedPage}, parameters=("cursor", "after", "epoch", "html", "wait"), name="threads_feed")
    def index(self, request: Request, key: str) -> Response:
        """What the websocket would have sent since the last look, and where the thread stands.

        Begin with the ``epoch`` and ``seq`` (as ``after``) of a page of messages, or without either from the beginning;
        then follow ``next``, which is always there. With ``wait`` an answer that has nothing new waits for it.
        """
        thread = self.thread(key)
        place = _place(request)
        viewer = Viewer.of(request.user, thread)
        with waiting.place(waiting.seconds(request)) as granted:
            found = apart(background.run, poll, thread, viewer, place, html=flag(request, "html"), seconds=granted)
        cursor = found.pop("place").text()
        return Response({**found, **page(request, found["results"], cursor=cursor)})


def _place(request: Request) -> Place:
    if "cursor" in request.query_params:
        return Place.of(request.query_params["cursor"])
    return Place(request.query_params.get("epoch"), number(request, "after", 0))
