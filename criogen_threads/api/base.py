"""What every view of the API stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from django.db import transaction
from django.utils.decorators import method_decorator
from rest_framework import renderers, viewsets
from rest_framework.authentication import SessionAuthentication

from criogen_threads import errors, inputs, redaction, visitors
from criogen_threads.api import openapi, problems, waiting
from criogen_threads.api.permissions import IsSomebody
from criogen_threads.api.reading import OnlyJSON, StrictJSONParser
from criogen_threads.conf import settings
from criogen_threads.engine import reads
from criogen_threads.policy import get_policy
from criogen_threads.threads import handle_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rest_framework.request import Request

    from criogen_threads.models import Thread
    from criogen_threads.threads import ThreadHandle

T = TypeVar("T")


class EscapingRenderer(renderers.JSONRenderer):
    """JSON in ASCII."""

    ensure_ascii = True


class JSONRenderer(renderers.JSONRenderer):
    """JSON, also of text that UTF-8 cannot hold: half a surrogate pair is then escaped."""

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        try:
            return bytes(super().render(data, accepted_media_type, renderer_context))
        except UnicodeEncodeError:
            return bytes(EscapingRenderer().render(data, accepted_media_type, renderer_context))


@method_decorator(transaction.non_atomic_requests, name="dispatch")
class View(viewsets.ViewSet):
    """JSON in and out, for users who are logged in, and for visitors where the site has them.

    There is no transaction around a request: each write is its own. Authentication and throttles are those of
    the site's ``REST_FRAMEWORK``.
    """

    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer]
    content_negotiation_class = OnlyJSON
    permission_classes = [IsSomebody]
    schema = openapi.default_schema()
    visitors_begin: frozenset[str] = frozenset()
    """Actions in which somebody who is new here becomes a visitor."""

    request: Request

    def get_exception_handler(self) -> Callable[..., Any]:
        """The package's own, whatever the site's is."""
        return problems.handle

    def perform_authentication(self, request: Request) -> None:
        """Find a visitor where nobody is logged in. Of them the framework asks no CSRF token; this does."""
        super().perform_authentication(request)
        if visitors.is_somebody(request.user):
            return
        begins = bool(settings.VISITOR_AGENTS) and self.action in self.visitors_begin
        if begins or visitors.is_somebody(visitors.actor(request)):
            SessionAuthentication().enforce_csrf(request)  # before a session is made
            request.user = visitors.actor(request, make=begins)

    def thread(self, key: str) -> Thread:
        """A thread that this user may see.

        Raises:
            InvalidThreadIdError: ``invalid_thread_id``: no thread can have this key.
            ThreadNotFoundError: ``thread_not_found``: there is none, or not for this user.
        """
        thread = reads.thread(inputs.thread_key(key))
        if thread is None or not get_policy().see(self.request.user, thread):
            raise errors.ThreadNotFoundError
        return thread

    def handle_on(self, thread: Thread) -> ThreadHandle:
        """The Python API on this thread, on behalf of this user."""
        return handle_on(thread, self.request.user)

    def shown_to(self, thread: Thread) -> redaction.Audience:
        return redaction.audience(self.request.user, thread)


def apart(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call something that works in other threads, without keeping a connection that they may need."""
    waiting.release()
    return function(*args, **kwargs)
