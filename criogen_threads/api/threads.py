"""Threads: list, search, create, describe, delete, rewind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import TextField
from django.db.models.functions import Cast
from rest_framework.response import Response

from criogen_threads import errors, inputs, payload, tickets
from criogen_threads.agents import get_agent
from criogen_threads.api import serializers, shapes, showing, waiting
from criogen_threads.api.base import View, apart
from criogen_threads.api.openapi import describe
from criogen_threads.api.pagination import limit_of, page, walk
from criogen_threads.conf import settings
from criogen_threads.engine.journal import posts
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.ids import new_id
from criogen_threads.models import Thread
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

STATUSES = [*Thread.Status.values, showing.INTERRUPTED]


class Threads(View):
    """``threads/``"""

    visitors_begin = frozenset({"create"})

    @describe(
        {200: shapes.ThreadPage},
        parameters=("status", "agent", "owner", "metadata", "cursor", "limit"),
        name="threads_list",
    )
    def index(self, request: Request) -> Response:
        """The threads that this user may see, newest first."""
        wanted = _metadata(request.query_params.get("metadata"))
        found, cursor = walk(
            _search(request), _cursor(request), limit_of(request), descending=True,
            keep=None if not wanted else lambda thread: _has(thread.metadata, wanted),
        )  # fmt: skip
        views = [showing.thread_view(thread, held=thread.is_held) for thread in found]  # type: ignore[attr-defined]
        return Response(page(request, views, cursor=cursor))

    @describe({200: shapes.ThreadShape, 201: shapes.ThreadShape}, request=serializers.NewThread, name="threads_create")
    def create(self, request: Request) -> Response:
        """Begin a thread, under the key of a ticket or one of the server's choice; 200 if it is there already."""
        given = serializers.validated(serializers.NewThread, request.data)
        key, agent = new_thread(request, given.get("key"), given.get("agent"), given.get("ticket"))
        columns: dict[str, Any] = {name: given[name] for name in ("title", "metadata") if name in given}
        made = posts.create(key, agent, Asker.of(request.user), columns)
        return Response(self._view(self.thread(key)), status=201 if made else 200)

    @describe({200: shapes.ThreadShape}, name="threads_retrieve")
    def retrieve(self, request: Request, key: str) -> Response:  # noqa: ARG002
        """One thread."""
        return Response(self._view(self.thread(key)))

    @describe({200: shapes.ThreadShape}, request=serializers.ThreadPatch, name="threads_update")
    def partial_update(self, request: Request, key: str) -> Response:
        """Set the title, the metadata, or the agent that answers from now on."""
        thread = self.thread(key)
        given = serializers.validated(serializers.ThreadPatch, request.data)
        apart(self.handle_on(thread).describe_sync, **given)
        return Response(self._view(self.thread(key)))

    @describe({204: None}, parameters=("on_busy", "wait"), name="threads_delete")
    def destroy(self, request: Request, key: str) -> Response:
        """Delete the thread and everything of it."""
        handle = self.handle_on(self.thread(key))
        with waiting.place(patience(request)) as granted:
            apart(handle.delete_sync, on_busy=request.query_params.get("on_busy"), timeout=granted)
        return Response(status=204)

    @describe({200: shapes.CheckpointShape}, request=serializers.Rewinding, parameters=("wait",), name="threads_rewind")
    def rewind(self, request: Request, key: str) -> Response:
        """Make an older checkpoint the head again; gives the new head."""
        handle = self.handle_on(self.thread(key))
        given = serializers.validated(serializers.Rewinding, request.data)
        with waiting.place(patience(request)) as granted:
            head = apart(handle.rewind_sync, given["checkpoint"], on_busy=given.get("on_busy"), timeout=granted)
        return Response(head)

    @staticmethod
    def _view(thread: Thread) -> dict[str, Any]:
        held = Thread.objects.held().filter(pk=thread.pk).exists()
        return showing.thread_view(thread, held=held)


def new_thread(request: Request, key: str | None, agent: str | None, ticket: str | None) -> tuple[str, str]:
    """The key and the agent of a thread that this user may begin.

    Raises:
        TicketInvalidError: ``ticket_invalid``; also where key or agent are not those of the ticket.
        InvalidOptionError: ``invalid_option``: there is neither a ticket nor an agent.
        PermissionDeniedError: ``permission_denied``: without a ticket the server chooses the key.
        AgentNotFoundError: ``agent_not_found``.
    """
    policy, user = get_policy(), request.user
    if ticket is not None:
        signed = tickets.read(request, ticket)
        if key not in (None, signed.key) or agent not in (None, signed.agent):
            raise errors.TicketInvalidError
        key, agent = signed.key, signed.agent
    elif agent is None:
        raise errors.InvalidOptionError("a thread needs an agent")
    elif key is None:
        key = str(new_id())
    elif not policy.choose_key(user, inputs.thread_key(key)):
        raise errors.PermissionDeniedError("without a ticket the server chooses the key")
    if not (policy.use(user, agent) and policy.create(user, key)):
        raise errors.PermissionDeniedError
    return key, get_agent(agent).name


def patience(request: Request) -> float:
    """Seconds that a change waits for a busy thread: ``?wait``, else as long as the Python API, up to 30."""
    if "wait" in request.query_params:
        return waiting.seconds(request)
    return min(settings.BUSY_TIMEOUT, waiting.LONGEST)


# Searching -----------------------------------------------------------------------------------------------------


def _search(request: Request) -> QuerySet[Thread]:
    query = request.query_params
    threads = get_policy().seen(request.user, Thread.objects.filter(ephemeral=False, parent=None))
    if "status" in query:
        threads = _by_status(threads, query["status"])
    if "agent" in query:
        if not inputs.is_name(query["agent"]):
            raise errors.InvalidOptionError("agent is the name of one")
        threads = threads.filter(agent=query["agent"])
    if "owner" in query:
        threads = threads.filter(owner=_owner(request))
    for name, value in _metadata(query.get("metadata")).items():
        pair = payload.dumps({name: value})[1:-1]  # a first sieve: what contains it may still not have it on top
        threads = threads.alias(text=Cast("metadata", TextField())).filter(text__contains=pair)
    return showing.with_holder(threads)


def _by_status(threads: QuerySet[Thread], status: str) -> QuerySet[Thread]:
    if status not in STATUSES:
        raise errors.InvalidOptionError(f"status is one of {', '.join(STATUSES)}")
    if status in (showing.INTERRUPTED, Thread.Status.RUNNING):
        running = threads.filter(status=Thread.Status.RUNNING)
        return running.filter(Thread.objects.holding() if status == "running" else ~Thread.objects.holding())
    return threads.filter(status=status)


def _owner(request: Request) -> Any:
    text = request.query_params["owner"]
    if text == "me":
        return request.user.pk
    try:
        owner = get_user_model()._meta.pk.to_python(text)
    except ValidationError:
        owner = None
    if owner is None or not inputs.is_name(text) or len(text) > 200 or (isinstance(owner, int) and abs(owner) >> 62):
        raise errors.InvalidOptionError("owner is the primary key of a user, or me")
    return owner


def _metadata(text: str | None) -> dict[str, Any]:
    try:
        wanted = json.loads(text or "{}")
        payload.check(wanted)
    except (ValueError, RecursionError):
        wanted = None
    if not isinstance(wanted, dict):
        raise errors.InvalidOptionError("metadata is a JSON object")
    return wanted


def _has(metadata: Any, wanted: dict[str, Any]) -> bool:
    return all(name in metadata and metadata[name] == value for name, value in wanted.items())


def _cursor(request: Request) -> Any:
    text = request.query_params.get("cursor")
    cursor = inputs.identifier(text)
    if text is not None and cursor is None:
        raise errors.InvalidOptionError("cursor is from the next of a page")
    return cursor
