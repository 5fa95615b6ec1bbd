"""The addresses of the API; a thread's key is whatever stands between two slashes."""

from __future__ import annotations

from typing import Any

from django.urls import include, path

from criogen_threads.api import openapi
from criogen_threads.api.agents import Agents
from criogen_threads.api.approvals import Approvals
from criogen_threads.api.contents import Contents, events
from criogen_threads.api.feed import Polls
from criogen_threads.api.runs import Runs
from criogen_threads.api.threads import Threads

app_name = "criogen_threads"

KEY = "threads/<str:key>/"


def _detail(name: str, view: type[Any], **methods: str) -> Any:
    """An address below one thread."""
    return path(f"{KEY}{name}/", view.as_view(methods), name=f"thread-{name}")


urlpatterns = [
    path("threads/", Threads.as_view({"get": "index", "post": "create"}), name="threads"),
    path(
        KEY,
        Threads.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
        name="thread",
    ),
    _detail("messages", Contents, get="messages"),
    path(f"{KEY}messages/<str:id>/siblings/", Contents.as_view({"get": "siblings"}), name="message-siblings"),
    _detail("history", Contents, get="history"),
    path(f"{KEY}events/", events, name="thread-events"),
    _detail("feed", Polls, get="index"),
    _detail("runs", Runs, get="index", post="create"),
    _detail("retry", Runs, post="retry"),
    _detail("rewind", Threads, post="rewind"),
    _detail("approve", Approvals, post="approve"),
    _detail("reject", Approvals, post="reject"),
    _detail("decide", Approvals, post="decide"),
    path("runs/<str:id>/", Runs.as_view({"get": "retrieve"}), name="run"),
    path("runs/<str:id>/tree/", Runs.as_view({"get": "tree"}), name="run-tree"),
    path("runs/<str:id>/cancel/", Runs.as_view({"post": "cancel"}), name="run-cancel"),
    path("approvals/", Approvals.as_view({"get": "index"}), name="approvals"),
    path("approvals/<str:id>/decide/", Approvals.as_view({"post": "decide_one"}), name="approval-decide"),
    path("agents/", Agents.as_view({"get": "index"}), name="agents"),
    path("", include("criogen_threads.streaming.urls")),
]

if openapi.AVAILABLE:
    from criogen_threads.api.schema import Schema

    urlpatterns.append(path("schema/", Schema.as_view(), name="schema"))
