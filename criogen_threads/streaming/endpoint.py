"""``POST /api/agui/{agent}/``: one run, for any client that speaks AG-UI.

Only the last user message of what a client sends is read; the history is ours. Django's CSRF protection holds here
as everywhere: a browser sends the token in ``X-CSRFToken``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_ui.core.types import RunAgentInput
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext_noop as _
from django.views.decorators.csrf import csrf_protect
from pydantic import ValidationError

from criogen_threads import errors, inputs, problems
from criogen_threads.agents import get_agent
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Thread
from criogen_threads.streaming.agui_run import Attached
from criogen_threads.streaming.sse import look, refusal, stream
from criogen_threads.streaming.visitor import agent_for
from criogen_threads.threads import ThreadHandle
from criogen_threads.visitors import is_somebody

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.agents import Agent
    from criogen_threads.backends.base import Block
    from criogen_threads.streaming.visitor import Sight

LARGEST_INPUT = 4 * 1024 * 1024
"""Bytes: a client sends its whole history, which is only compared."""


class InputInvalidError(errors.CriogenError):
    code = "input_invalid"
    text = _("This is not a RunAgentInput.")


@csrf_protect
@problems.answered
async def agui(request: HttpRequest, agent: str) -> HttpResponseBase:
    """Run, answer or join, and stream what happens: see the package's documentation of AG-UI.

    Its ``runId`` is the ``client_id`` of the run: sent twice, it is one run. ``resume`` answers approvals. With
    neither a user message at the end nor ``resume`` the current run is joined. ``forwardedProps.ticket`` is the
    ticket for a thread that does not exist yet.
    """
    if request.method != "POST":
        return HttpResponse(status=405, headers={"Allow": "POST"})
    if not isinstance(request, ASGIRequest):
        raise errors.AsgiRequiredError
    given = _input(request)
    key = inputs.thread_key(given.thread_id)
    seen = await look(request, key)
    if not is_somebody(seen.user) or (seen.thread is not None and not seen.visible):
        raise refusal(seen)
    handle = ThreadHandle(key, agent=await _agent(request, seen, given, agent), actor=seen.user)
    attached = await _begin(handle, given, seen)
    return stream(attached.events())


def _input(request: HttpRequest) -> RunAgentInput:
    """The body.

    Raises:
        InputInvalidError: ``input_invalid``.
        MessageTooLargeError: ``message_too_large``.
    """
    try:
        body = request.read(LARGEST_INPUT + 1)
    except RequestDataTooBig:
        body = b" " * (LARGEST_INPUT + 1)
    if len(body) > LARGEST_INPUT:
        raise errors.MessageTooLargeError(f"the input has more than {LARGEST_INPUT} bytes")
    try:
        return RunAgentInput.model_validate_json(body)
    except (ValidationError, ValueError, RecursionError) as problem:
        count = problem.error_count() if isinstance(problem, ValidationError) else 1
        raise InputInvalidError(f"this is not a RunAgentInput: {count} values are wrong") from None


async def _agent(request: HttpRequest, seen: Sight, given: RunAgentInput, name: str) -> Agent:
    """The agent of the address, where it is the thread's, or may be."""
    if seen.thread is not None:
        if seen.thread.agent != name:
            raise errors.AgentNotFoundError("this thread has another agent")
        return await in_database(get_agent, name)
    request.user = seen.user
    props = given.forwarded_props
    ticket = props.get("ticket") if isinstance(props, dict) else None
    agent = await in_database(agent_for, request, given.thread_id, ticket, name)
    if agent.name != name:
        raise errors.AgentNotFoundError("the ticket is for another agent")
    return agent


async def _begin(handle: ThreadHandle, given: RunAgentInput, seen: Sight) -> Attached:
    """Do what the input asks for, and join the run that it is about."""
    viewer = await in_database(lambda: seen.viewer)
    attached = Attached(handle, given, viewer)
    if given.resume:
        waits = seen.thread is not None and seen.thread.status == Thread.Status.SUSPENDED
        if waits:
            await attached.prepare()
        run = await handle.answer({entry.interrupt_id: _decision(entry) for entry in given.resume})
        return attached.wait_for(run) if waits else await attached.join(run, owns=True)
    if given.messages and given.messages[-1].role == "user":
        if (before := await attached.sent_before()) is not None:
            await handle.enqueue(_content(given), client_id=given.run_id)  # refuses another text under this id
            return await attached.join(str(before), owns=True)
        await attached.watch()
        run = await handle.enqueue(_content(given), client_id=given.run_id)
        return attached.wait_for(run)
    current: UUID | None = seen.thread.current_run_id if seen.thread else None
    if current is None:
        raise errors.RunNotFoundError("there is no run to join, and the input says nothing")
    return await attached.join(str(current), owns=False)


def _decision(entry: Any) -> Any:
    """An entry of ``resume`` as ``decide`` takes it."""
    if entry.status == "cancelled":
        return False
    return {} if entry.payload is None else entry.payload  # an answer that says nothing is none


def _content(given: RunAgentInput) -> str | list[Block]:
    content: Any = given.messages[-1].content
    if isinstance(content, str):
        return content
    if any(part.type != "text" for part in content):
        raise errors.InvalidMessageError("only text is taken over AG-UI")
    return [{"text": part.text} for part in content]
