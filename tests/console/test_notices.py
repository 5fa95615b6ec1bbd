"""Telling people: by e-mail and by a signed webhook, after the commit, holding no run."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core import mail

from criogen_threads.notices import signature
from tests.api.support import a_user
from tests.console.support import Staff, a_waiting_thread, completed, customer, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


def with_mail(user: Any) -> Any:
    user.email = f"{user.username}@example.com"
    user.save()
    return user


@pytest.fixture
def told(settings: SettingsWrapper) -> SettingsWrapper:
    settings.CRIOGEN_THREADS = {
        **settings.CRIOGEN_THREADS, "NOTIFY_EMAIL": True, "NOTIFY_SITE": "https://desk.example/",
        "NOTIFY_RETRIES": 2, "NOTIFY_BACKOFF": 0.01,
    }  # fmt: skip
    return settings


@pytest.fixture
def people(transactional_db: None) -> dict[str, Any]:
    """Two who may answer, by a permission and by a group, and those who may not."""
    group = Group.objects.create(name="approvers")
    group.permissions.add(Permission.objects.get(codename="decide_toolcall"))
    found = {
        "direct": with_mail(a_user("direct", "decide_toolcall", staff=True)),
        "grouped": with_mail(a_user("grouped", staff=True)),
        "viewer": with_mail(a_user("viewer", "view_transcript", staff=True)),
        "ann": with_mail(customer()),
    }
    found["grouped"].groups.add(group)
    return found


def boxes() -> list[str]:
    return sorted(message.to[0] for message in mail.outbox)


def test_those_who_may_answer_are_written_to_with_a_link(told: Any, people: dict[str, Any]) -> None:
    call = a_waiting_thread(card="4111", note="secret matter")
    eventually(lambda: len(mail.outbox) == 2)
    assert boxes() == ["direct@example.com", "grouped@example.com"]
    text = mail.outbox[0].body
    assert f"https://desk.example/admin/criogen_threads/approval/{call.pk}/change/" in text
    assert "secret matter" not in text
    assert "4111" not in text


def test_who_asked_is_told_that_it_was_answered(told: Any, people: dict[str, Any]) -> None:
    call = a_waiting_thread()
    eventually(lambda: len(mail.outbox) == 2)
    mail.outbox.clear()
    Staff("boss", superuser=True).answer(call, "reject")
    completed()
    eventually(lambda: len(mail.outbox) == 1)
    assert mail.outbox[0].to == ["ann@example.com"]
    assert mail.outbox[0].subject == "Not approved: refund"
    assert "desk.example" not in mail.outbox[0].body  # its page is for staff


def test_nobody_is_told_unless_the_site_says_so(people: dict[str, Any]) -> None:
    a_waiting_thread()
    assert mail.outbox == []


def test_a_mail_server_that_is_down_holds_no_run_and_is_tried_again(
    told: Any, people: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.core.mail import EmailMessage

    real, tries, up = EmailMessage.send, [], threading.Event()

    def send(message: Any, *args: Any, **kwargs: Any) -> Any:
        tries.append(message.to[0])
        if tries.count(message.to[0]) == 1:
            up.wait(5)
            raise OSError("no mail server")
        return real(message, *args, **kwargs)

    monkeypatch.setattr(EmailMessage, "send", send)
    a_waiting_thread()  # comes back though the mail server hangs
    assert mail.outbox == []
    up.set()
    eventually(lambda: len(mail.outbox) == 2)
    assert boxes() == ["direct@example.com", "grouped@example.com"]


class Hook(HTTPServer):
    """Hears webhooks; the first answers are the ``statuses``, then 200."""

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), Heard)
        self.statuses = list(statuses)
        self.heard: list[tuple[dict[str, str], bytes]] = []


class Heard(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append((dict(self.headers), body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook(500, 302)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_webhook_is_signed_and_sent_until_it_is_taken(told: Any, hook: Hook) -> None:
    told.CRIOGEN_THREADS = {
        **told.CRIOGEN_THREADS, "NOTIFY_EMAIL": False, "NOTIFY_SECRET": "key",
        "NOTIFY_WEBHOOK": f"http://127.0.0.1:{hook.server_port}/hook",
    }  # fmt: skip
    call = a_waiting_thread(card="4111")
    eventually(lambda: len(hook.heard) == 3)
    assert len({json.loads(body)["id"] for _, body in hook.heard}) == 1
    headers, body = hook.heard[-1]
    assert headers["X-Criogen-Signature"] == signature("key", headers["X-Criogen-Timestamp"], body)
    said = json.loads(body)
    assert (said["type"], said["call"], said["tool"]) == ("approval_requested", str(call.pk), "refund")
    assert b"4111" not in body


def test_a_webhook_without_a_secret_is_not_sent(told: Any, hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    address = f"http://127.0.0.1:{hook.server_port}/hook"
    changed = {"NOTIFY_EMAIL": False, "NOTIFY_WEBHOOK": address, "NOTIFY_RETRIES": 0}
    told.CRIOGEN_THREADS = {**told.CRIOGEN_THREADS, **changed}
    a_waiting_thread()
    eventually(lambda: "A notice could not be sent" in caplog.text)
    assert hook.heard == []
