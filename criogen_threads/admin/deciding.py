"""The page of one approval, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from criogen_threads import errors, inputs, redaction
from criogen_threads.admin.ages import age, remaining
from criogen_threads.admin.asking import askers, name_answerers
from criogen_threads.admin.base import APP, LIVE, SLOW, Console, audience, explain, standing
from criogen_threads.admin.forms import ArgumentsForm
from criogen_threads.admin.story import story
from criogen_threads.admin.text import arguments, difference, visible
from criogen_threads.agents import InvalidArguments, Tool, find_tool
from criogen_threads.engine.views import approval_view
from criogen_threads.models import Approval, Message, ToolCall
from criogen_threads.policy import get_policy
from criogen_threads.threads import handle_on

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

PACE = 2000
"""Milliseconds after which the page asks whether somebody else has answered, or the run has gone on."""

AROUND = 20
"""Messages of the conversation that stand above an approval."""


class Deciding(Console):
    """``approval/{id}/change/`` shows it, ``approval/{id}/answer/`` takes the answer."""

    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._page(request, self._call(request, object_id))

    def answer_view(self, request: HttpRequest, pk: Any) -> HttpResponse:
        """Record the answer and go back to the page; the run goes on by itself."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        call = self._call(request, pk)
        if not get_policy().decide(request.user, call, call.thread, call.run):
            raise PermissionDenied
        if request.POST.get("verb") == "reject":
            return self._answered(request, call, {"approve": False, "reason": request.POST.get("reason", "")})
        if request.POST.get("verb") != "approve":
            raise Http404
        return self._approve(request, call)

    def _approve(self, request: HttpRequest, call: ToolCall) -> HttpResponse:
        view, tool = self.shown_view(request, call), tool_of(call)
        if view.get("hidden") or tool is None:
            raise PermissionDenied  # nobody approves what cannot be shown
        decision: dict[str, Any] = {"approve": True, "reason": request.POST.get("reason", "")}
        if "edit" in request.POST and isinstance(view["arguments"], dict):
            form = ArgumentsForm(tool, view["arguments"], request.POST)
            edited = _edited(form, tool, call)
            if not form.is_valid():
                return self._page(request, call, form=form, status=422)
            if edited is not None and "confirmed" not in request.POST:
                return self._page(request, call, form=form, review=difference(view["arguments"], edited))
            decision["arguments"] = edited
        return self._answered(request, call, decision)

    def _answered(self, request: HttpRequest, call: ToolCall, decision: dict[str, Any]) -> HttpResponse:
        if self.decide(request, call, decision, request.POST.get("digest", "")):
            text = _("Approved. The run goes on.") if decision["approve"] else _("Rejected. The model is told why.")
            messages.success(request, text)
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:{APP}_approval_change", args=[call.pk]))

    def decide(self, request: HttpRequest, call: ToolCall, decision: dict[str, Any], digest: str) -> bool:
        """Put an answer on record, bound to the arguments that were shown; False, and told, where it is refused."""
        error = self.try_to_decide(request, call, decision, digest)
        if error is not None:
            messages.error(request, explain(error))
        return error is None

    def try_to_decide(
        self, request: HttpRequest, call: ToolCall, decision: dict[str, Any], digest: str
    ) -> errors.CriogenError | None:
        """As ``decide``, giving back what was refused."""
        if not digest:
            return errors.ResumeInvalidError(_("The arguments are not those that were shown. Look at them again."))
        try:
            answer = inputs.decision({**decision, "digest": digest})
            handle = handle_on(call.thread, request.user)
            self.released(handle.answer_sync, {call.pk: answer})
        except errors.CriogenError as error:
            return error
        said = "approved" if decision["approve"] else "rejected"
        edited = " with edited arguments" if decision.get("arguments") is not None else ""
        self.log_change(request, Approval.objects.get(pk=call.pk), f"{said}{edited}")
        return None

    # What the page shows -------------------------------------------------------------------------------------------

    def _call(self, request: HttpRequest, pk: Any) -> ToolCall:
        wanted = inputs.identifier(pk)
        related = ("thread", "thread__owner", "message", "run", "run__actor", "run__parent_run", "decided_by")
        calls = Approval.objects.exclude(approver="").select_related(*related)
        call = calls.filter(pk=wanted).first() if wanted else None
        if call is None or not self.has_view_permission(request, call):
            raise Http404
        name_answerers([call])
        return call

    def shown_view(self, request: HttpRequest, call: ToolCall) -> dict[str, Any]:
        """The call as this person is shown it, and the edited arguments beside the model's."""
        full = {**approval_view(call, call.agent), "edited_arguments": call.edited_arguments, "reason": call.reason}
        views = redaction.approvals([full], audience(request, call.thread))
        return views[0] if views else {**full, "arguments": None, "edited_arguments": None, "hidden": True}

    def _page(self, request: HttpRequest, call: ToolCall, *, status: int = 200, **context: Any) -> HttpResponse:
        shown = self._shown(request, call)
        return self.page(request, "approval", status, **{**shown, **context})

    def live_view(self, request: HttpRequest, pk: Any) -> HttpResponse:
        """What changes on the page of an approval when somebody answers it, and the run goes on."""
        call = self._call(request, pk)
        stands = standing(call.thread)
        facts = (call.pk, call.status, stands.seq, stands.state, audience(request, call.thread).staff)
        return self.refreshed(request, "live_approval", facts, lambda: self._shown(request, call))

    def _shown(self, request: HttpRequest, call: ToolCall) -> dict[str, Any]:
        view, tool = self.shown_view(request, call), tool_of(call)
        stands = standing(call.thread)
        waiting = call.status == ToolCall.Status.AWAITING_APPROVAL
        left = remaining(call)
        may = waiting and get_policy().decide(request.user, call, call.thread, call.run)
        may_approve = may and not view.get("hidden") and tool is not None
        form = None
        if may_approve and tool is not None and isinstance(view["arguments"], dict):
            form = ArgumentsForm(tool, view["arguments"])
        edited = view.get("edited_arguments")
        told = self._around(request, call)
        return {
            "title": _("Approval of %(tool)s") % {"tool": call.name},
            "call": call,
            "thread": call.thread,
            "key": visible(call.thread.key),
            "tool": tool,
            "name": visible(call.name),
            "description": visible(tool.description) if tool else "",
            "rows": arguments(view["arguments"]),
            "hidden": view.get("hidden"),
            "masked": [visible(name) for name in (tool.secrets if tool else ())],
            "difference": difference(view["arguments"], edited) if isinstance(edited, dict) else None,
            "reason": visible(call.reason or "") if view.get("reason") else "",
            "askers": askers(call.thread, call.run, told),
            "age": age(call.created_at),
            "left": left,
            "waiting": waiting,
            "given_reason": request.POST.get("reason", ""),
            "may": may,
            "may_approve": may_approve,
            "why_not": _why_not(request.user, call) if waiting and not may else "",
            "form": form,
            "story": told,
            "state": stands.state,
            "live_url": reverse(f"{self.admin_site.name}:{APP}_approval_live", args=[call.pk]),
            "every": PACE if waiting or stands.state in LIVE else SLOW,
            "offered": "answer" if may else "",
        }

    def _around(self, request: HttpRequest, call: ToolCall) -> Any:
        """The conversation that led here, and what the run said since; for those who may read it."""
        if not get_policy().see(request.user, call.thread):
            return None
        said = Message.objects.filter(thread=call.thread_id, run=call.run_id).order_by("-position")
        waiting = call.status == ToolCall.Status.AWAITING_APPROVAL
        tail = call.message_id if waiting else said.values_list("pk", flat=True).first()
        return story(call.thread, tail or call.message_id, audience(request, call.thread), limit=AROUND)


def tool_of(call: ToolCall) -> Tool | None:
    """The tool as it is today; None when it is gone."""
    return find_tool(call.agent, call.name)


def _edited(form: ArgumentsForm, tool: Tool, call: ToolCall) -> dict[str, Any] | None:
    """What the person made of the arguments; what the tool does not accept becomes an error of the form."""
    if not form.is_valid():
        return None
    edited = form.edited()
    if edited is not None:
        try:
            tool.validate(redaction.restored(edited, call.arguments, tool.secrets))
        except InvalidArguments as problem:
            form.add_error(None, str(problem))
    return edited


def _why_not(user: Any, call: ToolCall) -> str:
    if call.approver == "owner":
        return _("Only the owner of the thread answers this.")
    if user.pk in get_policy().asked_by(call.thread, call.run):
        return _("You asked for this, so somebody else has to answer it.")
    return _("You may look at this, but not answer it.")
