"""Runs: a turn is posted, looked at, cancelled, retried. None of it waits for the model unless asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response
from rest_framework.reverse import reverse

from criogen_threads import errors, inputs, redaction
from criogen_threads.agents import get_agent
from criogen_threads.api import serializers, shapes, waiting
from criogen_threads.api.base import View, apart
from criogen_threads.api.openapi import describe
from criogen_threads.api.pagination import limit_of, number
from criogen_threads.api.showing import run_views, thread_page
from criogen_threads.api.threads import new_thread, patience
from criogen_threads.engine import reads, trees
from criogen_threads.models import Run
from criogen_threads.policy import get_policy
from criogen_threads.threads import ThreadHandle

if TYPE_CHECKING:
    from rest_framework.request import Request

    from criogen_threads.models import Thread


class Runs(View):
    """``threads/{key}/runs/``, ``threads/{key}/retry/``, ``runs/{id}/``, its ``tree/`` and its ``cancel/``"""

    @describe({200: shapes.RunPage}, parameters=("before", "limit"), name="threads_runs")
    def index(self, request: Request, key: str) -> Response:
        """The runs of a thread, newest first."""
        thread = self.thread(key)
        limit, before = limit_of(request), number(request, "before", 0)
        runs = Run.objects.filter(thread=thread.pk).order_by("-number")
        found = list((runs.filter(number__lt=before) if before else runs)[: limit + 1])
        earlier = found[limit - 1].number if len(found) > limit else None
        views = run_views(found[:limit], thread, self.shown_to(thread))
        return Response(thread_page(request, thread, views, before=earlier))

    @describe(
        {200: shapes.RunShape, 202: shapes.RunShape},
        request=serializers.NewRun,
        parameters=("wait", "Idempotency-Key"),
        name="threads_send",
    )
    def create(self, request: Request, key: str) -> Response:
        """Say something: 202 with the queued run, or with ``wait`` 200 and the run when it has come to rest."""
        wanted = waiting.seconds(request)
        given = serializers.validated(serializers.NewRun, request.data)
        run_id = self._enqueue(request, inputs.thread_key(key), given)
        return self._answer(run_id, wanted)

    def _enqueue(self, request: Request, key: str, given: dict[str, Any]) -> str:
        thread, chosen = reads.thread(key), None
        if thread is None:
            key, agent = self._begun(request, key, given)
        else:
            seen = self.thread(key)  # 404 unless it is this user's to see
            chosen = given.get("agent")
            agent = str(chosen or seen.agent)
        if not get_policy().use(request.user, agent):
            raise errors.PermissionDeniedError("not an agent for this user")
        handle = ThreadHandle(key, agent=get_agent(agent), actor=request.user)
        goes_back = "checkpoint" in given
        with waiting.place(patience(request) if goes_back else 0.0) as granted:
            return apart(
                handle.enqueue_sync,
                given.get("blocks", given.get("text")),
                on_busy=given.get("on_busy"),
                client_id=_client_id(request, given),
                locale=given.get("locale"),
                state=given.get("state"),
                agent=chosen,
                checkpoint=given.get("checkpoint"),
                timeout=granted,
            )

    def _begun(self, request: Request, key: str, given: dict[str, Any]) -> tuple[str, str]:
        """A thread that its first message begins: with a ticket, or a key that the policy lets users choose."""
        if given.get("ticket") is None and not get_policy().choose_key(request.user, key):
            raise errors.ThreadNotFoundError
        return new_thread(request, key, given.get("agent"), given.get("ticket"))

    @describe({200: shapes.RunShape}, name="runs_retrieve")
    def retrieve(self, request: Request, id: str) -> Response:  # noqa: ARG002
        """One run."""
        run = self._run(id)
        return Response(self._view(run))

    @describe({200: shapes.TreeShape}, name="runs_tree")
    def tree(self, request: Request, id: str) -> Response:  # noqa: ARG002
        """One run with its calls, each with the run of the agent that it asked."""
        run = self._run(id)
        return Response(redaction.tree(trees.tree(run), self.shown_to(run.thread)))

    @describe({200: shapes.RunShape, 202: shapes.RunShape}, request=None, parameters=("wait",), name="runs_cancel")
    def cancel(self, request: Request, id: str) -> Response:
        """Stop exactly this run: 202 while it still ends, 200 when it has; with ``wait`` the answer waits for it."""
        wanted = waiting.seconds(request)
        run = self._run(id)
        handle = self.handle_on(run.thread)
        apart(handle.ask_to_stop_sync, run.pk)

        def ended() -> bool:
            run.refresh_from_db(fields=["status"])
            if run.status == Run.Status.IN_PROGRESS and not reads.is_held(run.thread_id):
                apart(handle.ask_to_stop_sync, run.pk)  # its process died with the mark: saved here
                run.refresh_from_db(fields=["status"])
            return run.status in (Run.Status.COMPLETED, Run.Status.FAILED)

        done = waiting.until(ended, wanted)
        return Response(self._view(self._run(id)), status=200 if done else 202)

    @describe({200: shapes.RunShape, 202: shapes.RunShape}, request=None, parameters=("wait",), name="threads_retry")
    def retry(self, request: Request, key: str) -> Response:
        """Continue the failed or interrupted run: 202 with it, or with ``wait`` 200 when it has come to rest."""
        wanted = waiting.seconds(request)
        run_id = apart(self.handle_on(self.thread(key)).request_retry_sync)
        return self._answer(run_id, wanted)

    def _answer(self, run_id: str, wanted: float) -> Response:
        rested = waiting.until(lambda: reads.rests(run_id), wanted)
        run = self._run(run_id)
        response = Response(self._view(run), status=200 if rested and wanted else 202)
        response["Location"] = reverse("criogen_threads:run", kwargs={"id": run_id}, request=self.request)
        return response

    def _run(self, id: str) -> Run:
        """A run that this user may see.

        Raises:
            RunNotFoundError: ``run_not_found``.
        """
        pk = inputs.identifier(id)
        run = Run.objects.filter(pk=pk).select_related("thread").first() if pk else None
        if run is None or not get_policy().see(self.request.user, run.thread):
            raise errors.RunNotFoundError
        return run

    def _view(self, run: Run) -> dict[str, Any]:
        thread: Thread = run.thread
        return run_views([run], thread, self.shown_to(thread))[0]


def _client_id(request: Request, given: dict[str, Any]) -> str | None:
    """The id under which this message is sent once, however often it comes.

    Raises:
        InvalidOptionError: ``invalid_option``: header and body disagree.
    """
    header, body = request.headers.get("Idempotency-Key"), given.get("client_id")
    if header is not None and body not in (None, header):
        raise errors.InvalidOptionError("client_id and Idempotency-Key differ")
    return body if header is None else header
