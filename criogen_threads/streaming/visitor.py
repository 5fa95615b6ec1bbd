"""Who is at the other end of a socket: read afresh each time it matters.

``scope["user"]`` and ``scope["session"]`` are those of the handshake, and outlive a log-out; so neither is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model, load_backend
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import DisallowedHost, ValidationError
from django.http import HttpRequest, parse_cookie
from django.utils.crypto import constant_time_compare

from criogen_threads import errors, tickets, visitors
from criogen_threads.agents import get_agent
from criogen_threads.conf import settings
from criogen_threads.engine import reads
from criogen_threads.policy import get_policy
from criogen_threads.streaming.showing import Viewer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from criogen_threads.agents import Agent
    from criogen_threads.models import Thread


@dataclass(frozen=True, slots=True)
class Sight:
    """What was found at one look: the user, the thread, and whether that user may see it."""

    user: Any
    thread: Thread | None
    visible: bool

    @property
    def viewer(self) -> Viewer:
        return Viewer.of(self.user, self.thread)


class Visitor:
    """The peer of a handshake, known by its session cookie."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        headers: dict[str, str] = {}
        for name, value in scope.get("headers", ()):  # one that came twice counts as one, as Django has it
            given = headers.get(name.decode("latin1"))
            headers[name.decode("latin1")] = (
                value.decode("latin1") if given is None else f"{given},{value.decode('latin1')}"
            )
        client = scope.get("client") or ("", 0)
        self._meta = {"REMOTE_ADDR": client[0], "HTTP_X_FORWARDED_FOR": headers.get("x-forwarded-for", "")}
        self.origin = headers.get("origin")
        self._headers = headers
        given = parse_cookie(headers.get("cookie", "")).get(django_settings.SESSION_COOKIE_NAME)
        self._session_key = given if given and given.isprintable() else None  # a quoted one may hold NUL

    def has_good_origin(self) -> bool:
        """Whether the page that opened the socket is the site's own, or one that the settings name.

        Only browsers send an origin, and always do: without one no page has used somebody's cookie.
        """
        if self.origin is None:
            return True
        named = {*settings.ALLOWED_ORIGINS, *django_settings.CSRF_TRUSTED_ORIGINS}
        if "*" in named or self.origin in named:
            return True
        try:
            return bool(urlsplit(self.origin).netloc == self._host())
        except (DisallowedHost, ValueError):
            return False

    def _host(self) -> Any:
        request = HttpRequest()
        request.META = {
            "HTTP_HOST": self._headers.get("host", ""),
            "HTTP_X_FORWARDED_HOST": self._headers.get("x-forwarded-host", ""),
        }
        if not request.META["HTTP_X_FORWARDED_HOST"]:
            del request.META["HTTP_X_FORWARDED_HOST"]
        return request.get_host()

    def request(self) -> HttpRequest:
        """A request with the session and the user, or visitor, of this moment. Reads the database."""
        request = HttpRequest()
        request.META = dict(self._meta)
        store = import_module(django_settings.SESSION_ENGINE).SessionStore
        request.session = store(self._session_key)
        request.user = user_of(request.session)
        request.user = visitors.actor(request)
        return request

    def look(self, key: str) -> Sight:
        """Who this is now, and whether they may see the thread. Reads the database."""
        return sight(self.request().user, key)

    def agent_for(self, key: str, ticket: Any, agent: Any) -> Agent:
        """The agent of a thread that does not exist yet, where this visitor may begin it.

        Raises:
            TicketInvalidError: ``ticket_invalid``.
            AgentNotFoundError: ``agent_not_found``.
            ThreadNotFoundError: ``thread_not_found``: no ticket, and the policy lets nobody choose a key.
        """
        return agent_for(self.request(), key, ticket, agent)


def agent_for(request: HttpRequest, key: str, ticket: Any, agent: Any) -> Agent:
    """See ``Visitor.agent_for``."""
    policy, user = get_policy(), request.user
    if ticket is not None:
        granted = tickets.read(request, ticket)
        if granted.key != key:
            raise errors.TicketInvalidError
        agent = granted.agent
    elif not policy.choose_key(user, key):
        raise errors.ThreadNotFoundError
    found = get_agent(str(agent))
    if not policy.use(user, found.name):
        raise errors.PermissionDeniedError
    return found


def sight(user: Any, key: str) -> Sight:
    """Whether a user may see a thread. Reads the database."""
    thread = reads.thread(key)
    return Sight(user, thread, thread is not None and get_policy().see(user, thread))


def user_of(session: Any) -> Any:
    """The user of a session as the database has it now; anonymous where it is over.

    Not ``auth.get_user``: that may give the session a new key, of which a socket cannot tell the browser.
    """
    path = session.get(BACKEND_SESSION_KEY)
    if path not in django_settings.AUTHENTICATION_BACKENDS:
        return AnonymousUser()
    try:
        pk = get_user_model()._meta.pk.to_python(session[SESSION_KEY])
    except (KeyError, ValidationError):
        return AnonymousUser()
    user = load_backend(path).get_user(pk)
    return user if user is not None and _is_of(session, user) else AnonymousUser()


def _is_of(session: Any, user: Any) -> bool:
    """Whether the session was begun with this user's password, and the user may log in still."""
    if not user.is_active:
        return False
    if not hasattr(user, "get_session_auth_hash"):
        return True
    given = session.get(HASH_SESSION_KEY) or ""
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(given, each) for each in hashes)
