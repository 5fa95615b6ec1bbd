"""The pages of the support desk: the chat, one's own conversations, and the orders for the staff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from criogen_threads import visitors
from criogen_threads.models import Message, Thread, ToolCall
from criogen_threads.policy import get_policy
from project.desk.models import CallBack, Order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

AGENT = "desk"
"""Who answers in a new conversation."""

AGENTS = (AGENT, "reception")
"""Whose conversations are listed."""

CURRENT = "desk_conversation"
"""Where the session has the key of the conversation that was chosen or begun last."""

ORDERS = ("desk.view_order", "desk.view_callback")
"""What the page of orders shows, staff must be allowed to see."""

MOST = 50


@require_safe
def chat(request: HttpRequest) -> HttpResponse:
    """The conversation that this person chose last, else their newest one, else a new one."""
    key = request.session.get(CURRENT)
    if key is None or not is_free_or_own(request, key):
        key = own(request).values_list("key", flat=True).first()
    return _chat_page(request, key or str(uuid4()))


@require_POST
def begin(request: HttpRequest) -> HttpResponse:
    """Begin anew: the key is the site's, never the visitor's choice."""
    request.session[CURRENT] = str(uuid4())
    return redirect("desk:chat")


@require_safe
def conversations(request: HttpRequest) -> HttpResponse:
    """One's own conversations, newest first."""
    threads = list(own(request)[:MOST])
    words = first_words(threads)
    rows = [(thread, thread.title or words.get(thread.pk) or _("Nothing was said yet")) for thread in threads]
    return page(request, "conversations.html", rows=rows)


@require_safe
def conversation(request: HttpRequest, key: str) -> HttpResponse:
    """One conversation; another's is a 404."""
    thread = get_object_or_404(own(request), key=key)
    request.session[CURRENT] = thread.key
    return _chat_page(request, thread.key)


@require_safe
@login_required
def orders(request: HttpRequest) -> HttpResponse:
    """The rows that the desk's tools read and change, for the staff. The page asks for them again by itself."""
    if not request.user.is_staff or not request.user.has_perms(ORDERS):
        raise Http404
    return page(request, "orders.html", orders=Order.objects.all(), call_backs=CallBack.objects.all()[:MOST])


# What they are made of ---------------------------------------------------------------------------------------------


def own(request: HttpRequest) -> QuerySet[Thread]:
    """The conversations in which this person may speak, newest first."""
    threads = get_policy().sendable(visitors.actor(request), Thread.objects.filter(agent__in=AGENTS, ephemeral=False))
    return threads.order_by("-pk")


def is_free_or_own(request: HttpRequest, key: str) -> bool:
    """Whether a ticket for this key gives away nothing that is another's."""
    return own(request).filter(key=key).exists() or not Thread.objects.filter(key=key).exists()


def first_words(threads: Iterable[Thread]) -> dict[Any, str]:
    """What each conversation began with, by the thread's own id."""
    first = Message.objects.filter(thread__in=[thread.pk for thread in threads], position=1)
    return {message.thread_id: " ".join(block.get("text", "") for block in message.content) for message in first}


def page(request: HttpRequest, template: str, **context: Any) -> HttpResponse:
    """A page with what its header needs."""
    user = request.user
    waiting = get_policy().decidable(user, ToolCall.objects.awaiting_approval()).count() if user.is_staff else 0
    return render(request, template, {**context, "waiting": waiting})


def _chat_page(request: HttpRequest, key: str) -> HttpResponse:
    suggestions = [_("Where is order A-1001?"), _("I want a refund for A-1002."), _("Please call me back.")]
    agent = own(request).filter(key=key).values_list("agent", flat=True).first() or AGENT
    return page(request, "chat.html", key=key, agent=agent, suggestions=suggestions)
