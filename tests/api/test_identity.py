"""Sessions, forgery, tickets: nobody is taken for whom a request says they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client, RequestFactory

from criogen_threads import tickets
from criogen_threads.errors import InvalidThreadIdError, TicketInvalidError
from criogen_threads.models import Run, Thread
from criogen_threads.policy import Policy
from tests.api.support import Api, code_of
from tests.support import an_agent

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


def request_of(user: Any) -> Any:
    request = RequestFactory().get("/")
    request.user = user
    request.session = SessionStore()
    return request


def test_f62_a_session_needs_the_csrf_token(owner: User) -> None:
    an_agent("ok", "ok").thread("one", actor=owner).send_sync("hi")
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    for method, path, body in (
        ("post", "threads/one/runs/", {"text": "x"}),
        ("patch", "threads/one/", {"title": "x"}),
        ("delete", "threads/one/", {}),
        ("post", "threads/", {"agent": "helper"}),
    ):
        response = getattr(client, method)(f"/api/{path}", json.dumps(body), content_type="application/json")
        assert code_of(response, 403) == "permission_denied", path
    assert Run.objects.count() == 1
    client.get("/admin/login/")  # a page with a form sets the cookie
    token = client.cookies["csrftoken"].value
    sent = client.post(
        "/api/threads/one/runs/", '{"text": "x"}', content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert sent.status_code == 202


def test_f62_no_endpoint_believes_a_user_in_the_body(api: Api, owner: User, stranger: User) -> None:
    an_agent("ok", "ok").thread("one", actor=owner).send_sync("hi")
    for name in ("user", "user_id", "owner", "actor", "actor_id"):
        assert code_of(Api(stranger).post("threads/one/runs/", text="x", **{name: owner.pk}), 400) == "invalid_option"
        assert code_of(api.post("threads/", agent="helper", **{name: stranger.pk}), 400) == "invalid_option"
    run = api.send("one", "x", state={"user_id": stranger.pk, "actor": stranger.pk})
    assert Run.objects.get(pk=run["id"]).actor == owner


def test_a_ticket_begins_the_thread_that_the_site_meant(api: Api, owner: User) -> None:
    an_agent("ok")
    ticket = tickets.sign(request_of(owner), "order-7", "helper")
    made = api.post("threads/", ticket=ticket)
    assert (made.status_code, made.json()["key"]) == (201, "order-7")
    assert api.post("threads/", ticket=ticket).status_code == 200  # it is there already
    assert api.send("order-7", "hi")["status"] == "completed"
    assert Thread.objects.get().owner == owner


def test_a_ticket_may_come_with_the_first_message(api: Api, owner: User) -> None:
    an_agent("ok")
    ticket = tickets.sign(request_of(owner), "order-7", "helper")
    assert api.send("order-7", "hi", ticket=ticket)["status"] == "completed"
    other = api.post("threads/order-8/runs/", text="hi", ticket=ticket)
    assert code_of(other, 403) == "ticket_invalid"


def test_f62_a_ticket_is_its_bearers_own(api: Api, owner: User, stranger: User, settings: SettingsWrapper) -> None:
    an_agent("ok")
    ticket = tickets.sign(request_of(owner), "order-7", "helper")
    assert code_of(Api(stranger).post("threads/", ticket=ticket), 403) == "ticket_invalid"
    assert code_of(api.post("threads/", ticket=ticket[:-1] + "x"), 403) == "ticket_invalid"
    assert code_of(api.post("threads/", ticket=""), 403) == "ticket_invalid"
    assert code_of(api.post("threads/", ticket=ticket, key="other"), 403) == "ticket_invalid"
    assert code_of(api.post("threads/", ticket=ticket, agent="other"), 403) == "ticket_invalid"
    settings.CRIOGEN_THREADS |= {"TICKET_SECONDS": 0}
    assert code_of(api.post("threads/", ticket=ticket), 403) == "ticket_invalid"
    assert not Thread.objects.exists()


def test_a_ticket_does_not_open_a_thread_that_is_anothers(api: Api, owner: User, stranger: User) -> None:
    an_agent("ok").thread("order-7", actor=stranger).send_sync("hi")
    ticket = tickets.sign(request_of(owner), "order-7", "helper")
    assert code_of(api.post("threads/", ticket=ticket), 404) == "thread_not_found"
    assert code_of(api.post("threads/order-7/runs/", text="x", ticket=ticket), 404) == "thread_not_found"


def test_a_ticket_for_a_visitor_is_their_sessions(owner: User) -> None:
    visitor = request_of(AnonymousUser())
    ticket = tickets.sign(visitor, "visit", "helper")
    assert tickets.read(visitor, ticket) == tickets.Ticket("visit", "helper")
    for other in (request_of(AnonymousUser()), request_of(owner)):
        with pytest.raises(TicketInvalidError):
            tickets.read(other, ticket)
    with pytest.raises(InvalidThreadIdError):
        tickets.sign(visitor, "a/b", "helper")


class Open(Policy):
    """A site that lets its users choose."""

    def choose_key(self, user: Any, key: str) -> bool:
        return key.startswith("free-")

    def use(self, user: Any, agent: str) -> bool:
        return agent != "internal"


def test_a_site_may_let_users_choose_the_key_and_keep_agents_to_itself(api: Api, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"POLICY": f"{__name__}.Open"}
    an_agent("ok")
    an_agent("ok", name="internal", description="Not for you.")
    assert api.post("threads/", agent="helper", key="free-1").status_code == 201
    assert api.send("free-2", "hi", agent="helper")["status"] == "completed"
    assert code_of(api.post("threads/", agent="helper", key="other"), 403) == "permission_denied"
    assert code_of(api.post("threads/", agent="internal"), 403) == "permission_denied"
    assert code_of(api.post("threads/free-1/runs/", text="x", agent="internal"), 403) == "permission_denied"
    names = [agent["name"] for agent in api.get("agents/").json()["results"]]
    assert "helper" in names
    assert "internal" not in names
    assert code_of(api.post("threads/"), 400) == "invalid_option"
