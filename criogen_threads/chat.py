"""What the chat on a page is configured with: addresses, the ticket, and its texts in the language of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings as django_settings
from django.middleware.csrf import get_token
from django.shortcuts import resolve_url
from django.templatetags.static import static
from django.urls import get_script_prefix, reverse
from django.utils.translation import gettext as _

from criogen_threads import tickets, visitors
from criogen_threads.agents import all_agents, get_agent
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest


def configuration(
    request: HttpRequest,
    thread: str,
    agent: str,
    *,
    title: str = "",
    launcher: bool = False,
    welcome: str = "",
    suggestions: Sequence[str] = (),
    socket: str = "ws/threads/",
) -> dict[str, Any]:
    """What ``<criogen-chat>``, or a ``Chat`` of one's own, is made with; JSON values.

    Args:
        request: Of the visitor who is to talk: the ticket is for that user or session alone.
        thread: The conversation's key; it begins with the first message.
        agent: The name of its agent.
        title: What stands above it. Default: what the agent is described as.
        launcher: A button in the corner that opens the chat, in place of the chat in the page.
        welcome: What stands there as long as nothing was said.
        suggestions: First questions, to be sent with one click.
        socket: Where the project's asgi.py has the websocket, below the site's root.

    Raises:
        InvalidThreadIdError: ``invalid_thread_id``.
        AgentNotFoundError: ``agent_not_found``.
    """
    named = get_agent(agent)
    return {
        "thread": thread,
        "agent": named.name,
        "agents": _names(request, named.name),
        "ticket": tickets.sign(request, thread, named.name),
        "api": reverse("criogen_threads:threads").removesuffix("threads/"),
        "socket": get_script_prefix() + socket.lstrip("/"),
        "csrf": _csrf(request),
        "login": resolve_url(django_settings.LOGIN_URL),
        "stylesheet": static("criogen_threads/chat/chat.css"),
        "title": title or named.description or named.name,
        "launcher": launcher,
        "welcome": welcome,
        "suggestions": list(suggestions),
        "texts": texts(),
    }


def _names(request: HttpRequest, own: str) -> dict[str, str]:
    """How the agents that this visitor may talk to, or sees asked, are called."""
    policy, visitor = get_policy(), visitors.actor(request)
    agency = get_agent(own).agency
    asked = agency.agents if agency is not None and agency.visible == "all" else ()
    known = [
        agent for agent in all_agents()
        if agent.name == own or agent.name in asked or policy.use(visitor, agent.name)
    ]  # fmt: skip
    return {agent.name: agent.description or agent.name for agent in known}


def _csrf(request: HttpRequest) -> dict[str, str]:
    """The token, and where a newer one is found: in its cookie, unless the site hides it."""
    header = django_settings.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-")
    return {"token": get_token(request), "cookie": django_settings.CSRF_COOKIE_NAME, "header": header}


def texts() -> dict[str, str]:
    """The words of the chat itself, in the language of the request."""
    return {
        "conversation": _("Conversation"),
        "message": _("Message"),
        "placeholder": _("Write a message…"),
        "send": _("Send"),
        "stop": _("Stop"),
        "open": _("Open the chat"),
        "close": _("Close the chat"),
        "you": _("You"),
        "writing": _("Writing an answer"),
        "not_sent": _("Not sent."),
        "try_again": _("Try again"),
        "discard": _("Discard"),
        "copy": _("Copy"),
        "copied": _("Copied"),
        "edit": _("Edit"),
        "editing": _("You are editing an earlier message. What came after it makes way for a new answer."),
        "cancel_editing": _("Cancel"),
        "regenerate": _("Answer again"),
        "previous": _("Previous version"),
        "next": _("Next version"),
        "version": _("Version %(index)s of %(count)s"),
        "earlier": _("Loading earlier messages…"),
        "new": _("New"),
        "latest": _("To the newest message"),
        "unread": _("Unread messages: %(count)s"),
        "suggestions": _("Suggested questions"),
        "attachment": _("Attachment"),
        "reasoning": _("Thoughts"),
        "call_asked": _("prepared"),
        "call_waiting": _("waits for approval"),
        "call_running": _("running"),
        "call_done": _("done"),
        "call_failed": _("failed"),
        "call_declined": _("declined"),
        "asks": _("asks %(agent)s"),
        "hands_over": _("hands over to %(agent)s"),
        "arguments": _("Input"),
        "result": _("Result"),
        "hidden": _("Not shown here."),
        "nothing": _("Nothing"),
        "approval": _("Approval needed"),
        "approval_mine": _("May this be done?"),
        "approval_staff": _("This waits for the staff. The conversation goes on by itself once they have answered."),
        "approval_hidden": _("Something here waits for the staff. It goes on by itself once they have answered."),
        "asked_by": _("%(agent)s asks for this."),
        "approval_until": _("Until %(time)s"),
        "approve": _("Approve"),
        "reject": _("Reject"),
        "reject_now": _("Reject"),
        "reason": _("Reason (optional)"),
        "back": _("Back"),
        "answering": _("Sending your answer…"),
        "answered": _("This was answered already."),
        "stopped": _("Stopped."),
        "failed": _("The answer could not be completed."),
        "interrupted": _("The answer was interrupted."),
        "retry": _("Try again"),
        "go_on": _("Continue"),
        "lost": _("Connection lost. Reconnecting…"),
        "polling": _("Live updates are blocked on this network: new messages are looked for every few seconds."),
        "ended": _("Your session has ended."),
        "sign_in": _("Sign in again"),
        "refused": _("This page may not open the conversation."),
        "suspended": _("Waiting for an approval…"),
        "error_offline": _("The server cannot be reached. Your message is kept; try again."),
        "error_thread_busy": _("Another answer is under way. Try again in a moment."),
        "error_thread_suspended": _("The conversation waits for an approval."),
        "error_thread_interrupted": _("The last answer was interrupted: continue it first."),
        "error_permission_denied": _("You may not do that here."),
        "error_behind": _("Something was already done after that message, so it cannot be taken back."),
        "error_ticket_invalid": _("This page has been open for too long. Load it again."),
        "error_message_too_large": _("This message is too long."),
        "error_too_many_runs": _("Too many answers are under way. Try again in a moment."),
        "error_model_failed": _("The assistant could not be reached."),
        "error_limit_reached": _("The answer became too long and was ended."),
        "error_approval_expired": _("The approval was not given in time."),
    }
