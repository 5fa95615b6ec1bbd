"""People, clients and a conversation that waits for one of them."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connections
from django.test import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User

APP = "criogen_threads"


def a_user(name: str, *permissions: str, staff: bool = False, superuser: bool = False) -> User:
    user = get_user_model().objects.create_user(
        name, password="pw", is_staff=staff or superuser, is_superuser=superuser
    )
    wanted = Permission.objects.filter(content_type__app_label=APP, codename__in=permissions)
    assert wanted.count() == len(permissions)
    user.user_permissions.set(wanted)
    return get_user_model().objects.get(pk=user.pk)  # without a cache of permissions


class Api:
    """A client of the API; ``as_user`` of None is nobody."""

    def __init__(self, user: Any = None) -> None:
        self.client = Client(raise_request_exception=True)
        if user is not None:
            self.client.force_login(user)

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(f"/api/{path}", headers=headers or None)

    def post(self, path: str, /, headers: dict[str, str] | None = None, **body: Any) -> Any:
        return self._send("post", path, body, headers)

    def patch(self, path: str, /, **body: Any) -> Any:
        return self._send("patch", path, body)

    def delete(self, path: str) -> Any:
        return self.client.delete(f"/api/{path}")

    def raw(self, method: str, path: str, body: bytes, kind: str = "application/json") -> Any:
        return getattr(self.client, method)(f"/api/{path}", body, content_type=kind)

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
        text = json.dumps(body)
        send = getattr(self.client, method)
        return send(f"/api/{path}", text, content_type="application/json", headers=headers)

    def send(self, key: str, text: str, wait: float = 10, **body: Any) -> dict[str, Any]:
        """Say something and wait for what comes of it."""
        response = self.post(f"threads/{quote(key, safe='')}/runs/?wait={wait}", text=text, **body)
        assert response.status_code in (200, 202), response.content
        run: dict[str, Any] = response.json()
        return run


def code_of(response: Any, status: int) -> str:
    """The code of a problem with this status."""
    assert response.status_code == status, (response.status_code, response.content)
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    return str(body["code"])


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """What they return when each has a thread, and all begin together."""
    found: list[Any] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> None:
        try:
            start.wait()
            found.append(work())
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
