"""Visitors: people who have not signed in, each known by a random id that only their session holds.

A site lets them in by naming the agents that they may talk to (``VISITOR_AGENTS``). What they begin is theirs by the
hash of that id, and becomes the user's at sign-in. Nobody can present the id of another: it never leaves the server.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import AnonymousUser
from django.utils.crypto import salted_hmac

from criogen_threads.conf import settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest

SESSION_NAME = "criogen_threads_visitor"
"""The entry of the session that holds the id."""


class AnonymousVisitor(AnonymousUser):
    """The actor that a visitor is: nobody to Django, and the owner of what this very visitor has begun.

    Args:
        visitor: The hash of the visitor's id, as rows have it.
        address: The keyed hash of the network address, for the limits.
    """

    def __init__(self, visitor: str, address: str = "") -> None:
        super().__init__()
        self.visitor = visitor
        self.address = address

    def __str__(self) -> str:
        return "visitor"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnonymousVisitor) and other.visitor == self.visitor

    def __hash__(self) -> int:
        return hash(self.visitor)


def actor(request: HttpRequest, *, make: bool = False) -> Any:
    """Who makes this request: the user, else the visitor, else Django's anonymous user. May read the session.

    Args:
        make: Give somebody who is new here an id, in the session. For pages that offer a chat.
    """
    user = getattr(request, "user", None) or AnonymousUser()
    if user.is_authenticated or isinstance(user, AnonymousVisitor) or not settings.VISITOR_AGENTS:
        return user
    session = getattr(request, "session", None)
    if session is None:
        return user
    token = session.get(SESSION_NAME)
    if not token and make:
        token = session[SESSION_NAME] = secrets.token_urlsafe(32)
    return AnonymousVisitor(digest(token), address(request.META)) if token else user


def is_somebody(user: Any) -> bool:
    """Whether this is a user who may log in, or a visitor, and so somebody who may have conversations."""
    if user is None:
        return False
    return isinstance(user, AnonymousVisitor) or bool(user.is_authenticated and user.is_active)


def digest(token: Any) -> str:
    """What rows hold in the place of a visitor's id. Not keyed: nobody guesses 256 random bits."""
    return hashlib.sha256(str(token).encode()).hexdigest()


def address(meta: Mapping[str, Any]) -> str:
    """The keyed hash of the network address that a request came from.

    Behind ``TRUSTED_PROXIES`` proxies, the entry of X-Forwarded-For that the outermost of them has written; what
    stands left of it is the client's own word, and not read. Of IPv6 the first 64 bits, which one customer has.
    """
    found = _ip(str(meta.get("REMOTE_ADDR") or ""))
    if settings.TRUSTED_PROXIES and (forwarded := str(meta.get("HTTP_X_FORWARDED_FOR") or "")):
        hops = forwarded.split(",")
        found = _ip(hops[-min(settings.TRUSTED_PROXIES, len(hops))]) or found
    return salted_hmac("criogen_threads.address", found, algorithm="sha256").hexdigest()


def _ip(text: str) -> str:
    """An address in the form that counts; "" where the text is none."""
    try:
        found = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((found, 64), strict=False))
        return str(found.ipv4_mapped)
    return str(found)
