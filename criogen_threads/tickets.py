"""Tickets: the site's word that this visitor may begin a conversation under this key.

A page of the site signs one (key, agent, and the user or the visitor that it is for), and the client shows it when
it creates the thread. Without a ticket the server chooses the key, so that nobody can sit down on "user-42" first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core import signing

from criogen_threads import inputs, visitors
from criogen_threads.conf import settings
from criogen_threads.errors import TicketInvalidError

if TYPE_CHECKING:
    from django.http import HttpRequest

SALT = "criogen_threads.ticket"


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a ticket lets its bearer begin."""

    key: str
    agent: str


def sign(request: HttpRequest, key: str, agent: str) -> str:
    """A ticket for whoever makes this request: the user, or the session of a visitor who has not logged in.

    Args:
        key: The thread's key. 1 to 200 characters, as for ``agent.thread``.
        agent: The name of its agent.

    Raises:
        InvalidThreadIdError: ``invalid_thread_id``.
    """
    return signing.dumps([inputs.thread_key(key), agent, _bearer(request, make=True)], salt=SALT)


def read(request: HttpRequest, ticket: Any) -> Ticket:
    """The ticket, once it is clear that it is genuine, fresh (``TICKET_SECONDS``) and this visitor's own.

    Raises:
        TicketInvalidError: ``ticket_invalid``.
    """
    try:
        key, agent, bearer = signing.loads(str(ticket), salt=SALT, max_age=timedelta(seconds=settings.TICKET_SECONDS))
    except (signing.BadSignature, ValueError, TypeError):
        raise TicketInvalidError from None
    if bearer != _bearer(request):
        raise TicketInvalidError
    return Ticket(key, agent)


def _bearer(request: HttpRequest, *, make: bool = False) -> list[str]:
    """Whom a ticket is for: a user's primary key as text, a visitor's digest, or, where a site has no visitors, a
    session's key; made where there is none yet."""
    user = visitors.actor(request, make=make)
    if user.is_authenticated:
        return ["user", str(user.pk)]
    if isinstance(user, visitors.AnonymousVisitor):
        return ["visitor", user.visitor]
    if make and not request.session.session_key:
        request.session.create()
    return ["session", request.session.session_key or ""]
