"""Approvals: the queue of those who answer, and the answers. Answered at once; the dispatcher goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.db.models.functions import Now
from django.http import Http404
from rest_framework.response import Response

from criogen_threads import errors, inputs, redaction
from criogen_threads.api import serializers, shapes
from criogen_threads.api.base import View, apart
from criogen_threads.api.openapi import describe
from criogen_threads.api.pagination import limit_of, page, walk
from criogen_threads.engine import reads
from criogen_threads.engine.journal import families
from criogen_threads.engine.trees import approval_views
from criogen_threads.models import Run, Thread, ToolCall
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rest_framework.request import Request


class Approvals(View):
    """``approvals/``, and ``approve/``, ``reject/`` and ``decide/`` of a thread"""

    @describe({200: shapes.ApprovalPage}, parameters=("cursor", "limit"), name="approvals_list")
    def index(self, request: Request) -> Response:
        """The pending calls that this user may answer, oldest first."""
        policy, user = get_policy(), request.user
        waiting = ToolCall.objects.awaiting_approval().filter(Q(expires_at=None) | Q(expires_at__gt=Now()))
        related = ("thread", "message", "run__thread", "run__parent_run")
        calls = policy.decidable(user, waiting).select_related(*related)
        text = request.query_params.get("cursor")
        after = inputs.identifier(text)
        if text is not None and after is None:
            raise errors.InvalidOptionError("cursor is from the next of a page")
        found, cursor = walk(
            calls, after, limit_of(request), keep=lambda call: policy.decide(user, call, call.thread, call.run)
        )
        return Response(page(request, list(self._views(found)), cursor=cursor))

    def _views(self, calls: Sequence[ToolCall]) -> Iterator[dict[str, Any]]:
        """Approvals as this user sees them, each with the thread that people speak in; those whose tool is kept from
        them altogether are left out."""
        views = approval_views(calls)
        keys = [
            view["chain"][0]["thread"] if view["chain"] else call.thread.key
            for call, view in zip(calls, views, strict=True)
        ]
        versions = dict(Thread.objects.filter(key__in=keys).values_list("key", "version"))
        for call, view, key in zip(calls, views, keys, strict=True):
            if call.run.parent_run_id and not view["chain"]:
                continue  # whoever asked for it is being deleted
            standing = {"thread": key, "version": versions.get(key, call.thread.version)}
            yield from redaction.approvals([{**view, **standing}], self.shown_to(call.thread))

    @describe({202: shapes.AnsweredShape}, request=serializers.Deciding, name="approvals_decide")
    def decide_one(self, request: Request, id: str) -> Response:
        """Answer one approval."""
        call = self._call(id)
        given = serializers.validated(serializers.Deciding, request.data)
        return self._answer(families.top(call.thread_id) or call.thread, {call.pk: given})

    @describe({202: shapes.AnsweredShape}, request=serializers.DecidingSome, name="threads_decide")
    def decide(self, request: Request, key: str) -> Response:
        """Answer some approvals of a thread, or all: all of the answers are kept, or none."""
        thread = self._thread(key)
        given = serializers.validated(serializers.DecidingSome, request.data)
        return self._answer(thread, given["decisions"], version=given.get("version"))

    @describe({202: shapes.AnsweredShape}, request=serializers.Approving, name="threads_approve")
    def approve(self, request: Request, key: str) -> Response:
        """Approve every call that waits, if the thread still stands where it was shown."""
        thread = self._thread(key)
        given = serializers.validated(serializers.Approving, request.data)
        return self._answer(thread, True, version=given["version"])

    @describe({202: shapes.AnsweredShape}, request=serializers.Rejecting, name="threads_reject")
    def reject(self, request: Request, key: str) -> Response:
        """Reject every call that waits, if the thread still stands where it was shown."""
        thread = self._thread(key)
        given = serializers.validated(serializers.Rejecting, request.data)
        return self._answer(thread, False, reason=given.get("reason", ""), version=given["version"])

    def _answer(self, thread: Thread, decisions: Any, **options: Any) -> Response:
        run_id = apart(self.handle_on(thread).answer_sync, decisions, **options)
        run = Run.objects.select_related("thread").get(pk=run_id)
        body = {"thread": thread.key, "run_id": run_id, "status": run.status, "pending": run.thread.pending}
        return Response(body, status=202)

    def _thread(self, key: str) -> Thread:
        """A thread that this user may see, or has something to answer in."""
        thread = reads.thread(inputs.thread_key(key))
        if thread is None or not (get_policy().see(self.request.user, thread) or self._may_answer(thread)):
            raise errors.ThreadNotFoundError
        return thread

    def _may_answer(self, thread: Thread) -> bool:
        run = thread.current_run
        calls = reads.pending(thread.pk, run.pk) if run else []
        return any(get_policy().decide(self.request.user, call, call.thread, call.run) for call in calls)

    def _call(self, id: str) -> ToolCall:
        pk = inputs.identifier(id)
        calls = ToolCall.objects.exclude(approver="").select_related("thread", "run", "run__parent_run")
        call = calls.filter(pk=pk).first() if pk else None
        policy, user = get_policy(), self.request.user
        if call is None or not (policy.decide(user, call, call.thread, call.run) or policy.see(user, call.thread)):
            raise Http404
        return call
