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
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Thread
from criogen_threads.policy import get_policy
from criogen_threads.streaming.agui_run import Attached
from criogen_threads.streaming.showing import Viewer
from criogen_threads.streaming.sse import look, refusal, stream
from criogen_threads.streaming.visitor import agent_for
from criogen_threads.threads import ThreadHandle
from criogen_threads.visitors import is_somebody

if TYPE_CHECKING:
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
    attached = await _attached(request, _input(request), agent)
    try:
        await Conduct().see_through(_begin(attached))  # what is asked for is known when a client has left meanwhile
        return await stream(attached.events())
    except BaseException:
        attached.leave()
        raise


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
    """The thread's agent, where the address names it or one of its agency; that of the address for a new thread."""
    if seen.thread is not None:
        return await in_database(_agent_of, seen, seen.thread.agent, name)
    request.user = seen.user
    props = given.forwarded_props
    ticket = props.get("ticket") if isinstance(props, dict) else None
    agent = await in_database(agent_for, request, given.thread_id, ticket, name)
    if agent.name != name:
        raise errors.AgentNotFoundError("the ticket is for another agent")
    return agent


def _agent_of(seen: Sight, agent: str, name: str) -> Agent:
    """A client keeps the address that it began with, though the conversation was left to another of the agency."""
    if agent != name:
        agency = get_agent(name).agency
        if agency is None or agent not in agency.agents or not get_policy().use(seen.user, name):
            raise errors.AgentNotFoundError("this thread has another agent")
    return get_agent(agent)


async def _attached(request: HttpRequest, given: RunAgentInput, agent: str) -> Attached:
    """Somebody who watches the very thread that the policy was asked about, existing or to be begun.

    Raises:
        NotAuthenticatedError, ThreadNotFoundError, AgentNotFoundError, PermissionDeniedError, TicketInvalidError:
            This is not for them.
    """
    key = inputs.thread_key(given.thread_id)
    while True:
        seen = await look(request, key)
        if not is_somebody(seen.user) or (seen.thread is not None and not seen.visible):
            raise refusal(seen)
        handle = ThreadHandle(key, agent=await _agent(request, seen, given, agent), actor=seen.user)
        attached = Attached(handle, given, request, seen.thread, await in_database(Viewer.of, seen.user, seen.thread))
        try:
            if await attached.watch():
                return attached
        except BaseException:
            attached.leave()
            raise
        attached.leave()  # its key was begun or left between the two: may that one be seen?


async def _begin(attached: Attached) -> None:
    """Do what the input asks for, and follow the run that it is about."""
    handle, given, thread = attached.handle, attached.given, attached.thread
    if given.resume:
        await _resume(attached)
    elif given.messages and given.messages[-1].role == "user":
        before = await attached.sent_before()
        run = await handle.enqueue(_content(given), client_id=given.run_id)  # refuses another text under this id
        if before is None:
            attached.wait_for(run)
        else:
            attached.join(run, owns=True)
    elif thread is None or thread.current_run_id is None:
        raise errors.RunNotFoundError("there is no run to join, and the input says nothing")
    else:
        attached.join(str(thread.current_run_id), owns=False)


async def _resume(attached: Attached) -> None:
    """Put the answers on record, and follow the run that they belong to."""
    thread = attached.thread
    waits = thread is not None and thread.status == Thread.Status.SUSPENDED
    if waits:
        await attached.prepare()
    answers = {entry.interrupt_id: _decision(entry) for entry in attached.given.resume or ()}
    run = await attached.handle.answer(answers)
    if waits:
        attached.wait_for(run)
    else:
        attached.join(run, owns=True)


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
