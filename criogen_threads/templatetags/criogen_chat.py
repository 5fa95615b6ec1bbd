"""``{% load criogen_chat %}{% criogen_chat thread=key agent="support" %}``: a conversation on a page of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import template
from django.core.exceptions import ImproperlyConfigured

from criogen_threads import chat
from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from django.template.context import RequestContext

register = template.Library()


@register.inclusion_tag("criogen_threads/chat.html", takes_context=True)
def criogen_chat(
    context: RequestContext, *, agent: str, thread: object = None, theme: str = "", **options: Any
) -> dict[str, Any]:
    """Place the chat: its configuration, ``<criogen-chat>``, and the module that brings it to life.

    Args:
        agent: The name of the agent.
        thread: The conversation's key. The ticket that is written into the page lets this visitor, and nobody else,
            begin it. Without a key each visit of the page is a new conversation.
        theme: "light" or "dark"; by default what the visitor's system says.
        options: ``title``, ``launcher``, ``welcome``, ``suggestions``, ``socket``: see ``chat.configuration``.

    Raises:
        ImproperlyConfigured: The request is not in the context.
        InvalidThreadIdError, AgentNotFoundError: See ``chat.configuration``.
    """
    request = context.get("request")
    if request is None:
        raise ImproperlyConfigured(
            "criogen_chat needs the request: render with it, and have django.template.context_processors.request in"
            " the context processors."
        )
    key = str(new_id()) if thread is None else str(thread)
    return {
        "id": f"criogen-chat-{new_id()}",
        "config": chat.configuration(request, key, agent, **options),
        "launcher": options.get("launcher", False),
        "theme": theme,
    }
