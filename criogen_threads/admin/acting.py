"""What staff do with a thread: rewind, retry, cancel, delete, export. Answered at once; runs go on by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _

from criogen_threads import inputs
from criogen_threads.admin import exports
from criogen_threads.admin.base import APP, Console, audience, identifier, note
from criogen_threads.admin.branching import checkpoint
from criogen_threads.admin.consequences import consequences
from criogen_threads.admin.files import one_picture, sent, written
from criogen_threads.policy import get_policy
from criogen_threads.threads import handle_on

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from criogen_threads.models import Thread


class Acting(Console):
    """The actions of a thread's page. Each asks the policy for this thread, and again where it is done."""

    def get_urls(self) -> list[Any]:
        def action(address: str, view: Any) -> Any:
            return path(f"<uuid:pk>/{address}/", self.own_view(view), name=f"{APP}_thread_{address}")

        own = [
            action("rewind", self.rewind_view),
            action("retry", self.retry_view),
            action("cancel", self.cancel_view),
            path("<uuid:pk>/export.<slug:kind>", self.own_view(self.export_view), name=f"{APP}_thread_export"),
            path("<uuid:object_id>/delete/", self.own_view(self.delete_view), name=f"{APP}_thread_delete"),
        ]
        return [*own, *super().get_urls()]

    def rewind_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """GET says what it would do; POST does it, unless the thread has moved on since."""
        thread = self._allowed(request, pk, "rewind")
        given = request.POST if request.method == "POST" else request.GET
        target = checkpoint(thread, identifier(given.get("checkpoint")))
        if request.method != "POST":
            found = consequences(thread, target, audience(request, thread))
            return self.page(
                request, "rewind", title=_("Rewind?"), readable=True, thread=thread, target=target, found=found
            )
        if given.get("version") != str(thread.version):
            messages.error(request, _("The thread has moved on since. Look at it again."))
            return self._back(thread, "branches")
        handle = handle_on(thread, request.user)
        head = self.act(request, handle.rewind_sync, target.pk, on_busy="reject")
        if head is not None:
            self._told(request, thread, "rewind", checkpoint=str(target.pk), version=target.version)
            said = _("Rewound to version %(version)d. The next message, or a retry, goes on from there.")
            messages.success(request, said % {"version": target.version})
        return self._back(thread)

    def retry_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Have the failed or interrupted run continued."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        thread = self._allowed(request, pk, "retry")
        run_id = self.act(request, handle_on(thread, request.user).request_retry_sync)
        if run_id is not None:
            self._told(request, thread, "retry", run=run_id)
            messages.success(request, _("The run goes on."))
        return self._back(thread)

    def cancel_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Stop exactly the run that was shown."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        thread = self._allowed(request, pk, "cancel")
        run_id = inputs.identifier(request.POST.get("run"))
        asked = run_id and self.act(request, handle_on(thread, request.user).ask_to_stop_sync, run_id)
        if asked:
            self._told(request, thread, "cancel", run=str(run_id))
            messages.success(request, _("The run was asked to stop."))
        elif asked is False or not run_id:
            messages.warning(request, _("That run has ended already."))
        return self._back(thread)

    def delete_view(self, request: HttpRequest, object_id: Any, extra_context: Any = None) -> HttpResponse:  # noqa: ARG002
        """GET asks; POST deletes the thread and everything of it, unless a run is under way."""
        thread = self._allowed(request, object_id, "delete")
        if request.method != "POST":
            return self.page(request, "delete", title=_("Delete?"), readable=True, thread=thread)
        if self.act(request, handle_on(thread, request.user).delete_sync, on_busy="reject") is None:
            return self._back(thread)
        self.log_deletions(request, [thread])  # type: ignore[arg-type]
        messages.success(request, _("The thread is deleted, with everything of it."))
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:{APP}_thread_changelist"))

    def export_view(self, request: HttpRequest, pk: UUID, kind: str) -> HttpResponseBase:
        """The thread as a file: what this person may see of it."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET"])
        if kind not in exports.KINDS:
            raise Http404
        parts, content_type = exports.KINDS[kind]
        with one_picture():
            thread = self.seen_thread(request, pk)
            file = written(parts(thread, audience(request, thread)))
        self._told(request, thread, "export", format=kind)
        return sent(request, file, content_type, f"{thread.key}.{kind}")

    def _allowed(self, request: HttpRequest, pk: Any, verb: str) -> Thread:
        """A thread that this person may see, and do this with."""
        thread = self.seen_thread(request, pk)
        if not getattr(get_policy(), verb)(request.user, thread):
            raise PermissionDenied
        return thread

    def _told(self, request: HttpRequest, thread: Thread, action: str, **details: Any) -> None:
        """On record twice: in the admin's log, and among the thread's own events."""
        self.log_change(request, thread, action)
        note(thread, request.user, action, **details)

    def _back(self, thread: Thread, tab: str = "change") -> HttpResponse:
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:{APP}_thread_{tab}", args=[thread.pk]))
