"""Visitors with browsers of their own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest

from criogen_threads import visitors
from tests.api.support import Api

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ADDRESS = "203.0.113.5"


class Guest(Api):
    """A browser of somebody who has not signed in."""

    def __init__(self, address: str = ADDRESS) -> None:
        super().__init__()
        self.client.defaults["REMOTE_ADDR"] = address

    def begin(self, agent: str = "helper") -> str:
        """A conversation of this visitor's; its key."""
        made = self.post("threads/", agent=agent)
        assert made.status_code == 201, made.content
        return str(made.json()["key"])

    def sign_in(self, user: User) -> None:
        """Through a form, as a person does: the session gets a new key and keeps what is in it."""
        done = self.client.post("/admin/login/", {"username": user.username, "password": "pw"})
        assert self.client.session.get("_auth_user_id") == str(user.pk), done.content

    @property
    def token(self) -> str | None:
        return self.client.session.get(visitors.SESSION_NAME)

    def copy(self) -> Guest:
        """Another browser with the same cookie."""
        twin = Guest()
        twin.client.cookies[settings.SESSION_COOKIE_NAME] = self.client.cookies[settings.SESSION_COOKIE_NAME].value
        return twin


def request_of(address: str = ADDRESS, forwarded: str = "") -> HttpRequest:
    """A request of somebody who is new here."""
    request = HttpRequest()
    request.META = {"REMOTE_ADDR": address}
    if forwarded:
        request.META["HTTP_X_FORWARDED_FOR"] = forwarded
    request.user = AnonymousUser()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore()
    return request


def a_visitor(address: str = ADDRESS) -> Any:
    """A visitor as the actor of a handle."""
    return visitors.actor(request_of(address), make=True)
