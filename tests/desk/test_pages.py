"""The site's pages: who sees what, and that nothing that was written by others does anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from criogen_threads.agents import get_agent
from criogen_threads.models import Thread
from project.desk import demo
from project.desk.models import CallBack, Order
from project.desk.talk import people
from project.security import POLICY

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = "<img src=x onerror=alert(1)>\u202e</script><script>alert(1)</script>"


@pytest.fixture(autouse=True)
def site(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"VISITOR_AGENTS": ["desk"]}
    settings.MIDDLEWARE = ["project.security.StrictContent", *settings.MIDDLEWARE]
    settings.STATIC_URL = "/static/"
    settings.LOGIN_URL, settings.LOGIN_REDIRECT_URL, settings.LOGOUT_REDIRECT_URL = "sign-in", "desk:chat", "desk:chat"


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def key_on(page: Any) -> str:
    """The conversation that a page shows."""
    found = re.search(r'"thread": "([^"]+)"', page.content.decode())
    assert found is not None, page.content
    return found[1]


def say(client: Client, text: str) -> str:
    """Say something in the chat of the front page, as its script does; the conversation's key."""
    page = client.get("/").content.decode()
    key, ticket = (re.search(rf'"{name}": "([^"]+)"', page)[1] for name in ("thread", "ticket"))  # type: ignore[index]
    sent = client.post(
        f"/api/threads/{key}/runs/?wait=20", {"text": text, "ticket": ticket, "agent": "desk"},
        content_type="application/json",
    )  # fmt: skip
    assert sent.status_code == 200, sent.content
    return key


def test_c8_a_visitor_talks_lists_and_takes_the_conversation_along() -> None:
    demo.seed()
    client = Client()
    assert b"There are none yet." in client.get("/conversations/").content
    key = say(client, "Where is order A-1001?")
    assert key_on(client.get("/")) == key
    listed = client.get("/conversations/").content.decode()
    assert "Where is order A-1001?" in listed
    assert "These belong to this browser." in listed
    passwords = people.with_new_passwords()
    done = client.post("/sign-in/", {"username": people.VISITOR, "password": passwords[people.VISITOR]})
    assert done["Location"] == "/"
    assert key_on(client.get("/")) == key
    assert Thread.objects.get().owner == people.visitor()
    client.post("/sign-out/")
    assert key_on(client.get("/")) != key
    assert client.get(f"/conversations/{key}/").status_code == 404


def test_a_new_conversation_is_a_new_one_until_another_is_chosen() -> None:
    client = signed_in(people.visitor())
    demo.prepare()
    demo.converse()
    assert key_on(client.get("/")) == "demo-notebooks"
    assert client.post("/new/")["Location"] == "/"
    new = key_on(client.get("/"))
    assert new == key_on(client.get("/"))
    assert not Thread.objects.filter(key=new).exists()
    assert key_on(client.get("/conversations/demo-lamp/")) == "demo-lamp"
    assert key_on(client.get("/")) == "demo-lamp"
    assert client.get("/new/").status_code == 405


def test_f62_no_page_signs_a_key_that_a_visitor_chose() -> None:
    demo.seed()
    get_agent("desk").thread("user-42", actor=people.visitor()).send_sync("Hello")
    for client in (Client(), signed_in(people.staff())):
        assert client.get("/conversations/user-42/").status_code == 404
        assert client.get("/conversations/not-there/").status_code == 404
        client.get("/")
        session = client.session
        session["desk_conversation"] = "user-42"
        session.save()
        assert key_on(client.get("/")) != "user-42"


def test_the_orders_are_for_the_staff_and_are_what_the_tools_change() -> None:
    demo.prepare()
    assert demo.converse() == len(demo.CONVERSATIONS)
    assert demo.converse() == 0
    assert Client().get("/orders/")["Location"] == "/sign-in/?next=/orders/"
    assert signed_in(people.visitor()).get("/orders/").status_code == 404
    clerk = signed_in(User.objects.create_user("clerk", is_staff=True))
    assert clerk.get("/orders/").status_code == 404
    assert 'href="/orders/"' not in clerk.get("/").content.decode()
    staff = signed_in(people.staff())
    page = staff.get("/orders/").content.decode()
    assert "2 approvals wait for you" in page
    assert "<strong>10.00 €</strong>" in page
    assert "+49 30 1234567, tomorrow at 9 am" in page
    get_agent("desk").thread("demo-notebooks", actor=people.staff()).approve_sync()
    page = staff.get("/orders/").content.decode()
    assert "<strong>18.50 €</strong>" in page
    assert "1 approval waits for you" in page
    get_agent("reception").thread("demo-both", actor=people.staff()).approve_sync()
    assert "waits for you" not in staff.get("/orders/").content.decode()


def test_a_strict_policy_stands_on_every_page() -> None:
    demo.prepare()
    demo.converse()
    staff = signed_in(people.staff())
    admin = [f"/admin/{name}" for name in ("", "criogen_threads/thread/", "criogen_threads/approval/", "desk/order/")]
    thread = f"/admin/criogen_threads/thread/{Thread.objects.get(key='demo-lamp').pk}/change/"
    pages = ["/", "/conversations/", "/conversations/nothing/", "/orders/", "/sign-in/", "/api/threads/", "/nowhere/"]
    for path in [*pages, *admin, thread, "/admin/login/"]:
        answer = staff.get(path)
        assert answer.headers["Content-Security-Policy"] == POLICY, path
        content = answer.content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", content), path
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", content), path
        assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", content), path


def test_f55_hostile_words_titles_and_rows_are_only_text() -> None:
    demo.seed()
    visitor, staff = signed_in(people.visitor()), signed_in(people.staff())
    desk = get_agent("desk")
    desk.thread("titled", actor=people.visitor()).send_sync("Hello")
    desk.thread("titled").describe_sync(title=HOSTILE)
    desk.thread("said", actor=people.visitor()).send_sync(HOSTILE)
    CallBack.objects.create(phone=HOSTILE[:40], when=HOSTILE)
    Order.objects.create(number="X-1", customer=HOSTILE, item=HOSTILE, total=1)
    for page in (visitor.get("/conversations/"), visitor.get("/"), staff.get("/orders/")):
        content = page.content.decode()
        assert "<img src=x" not in content
        assert "<script>alert" not in content
    assert "&lt;img src=x" in visitor.get("/conversations/").content.decode()


def test_a_list_of_conversations_costs_the_same_however_many_there_are(django_assert_max_num_queries: Any) -> None:
    demo.prepare()
    demo.converse()
    client = signed_in(people.visitor())
    client.get("/conversations/")
    with django_assert_max_num_queries(5):
        client.get("/conversations/")


def test_the_passwords_are_new_ones_each_time() -> None:
    first, second = people.with_new_passwords(), people.with_new_passwords()
    assert set(first) == {people.VISITOR, people.STAFF}
    assert not set(first.values()) & set(second.values())
    client = Client()
    assert not client.login(username=people.STAFF, password=first[people.STAFF])
    assert client.login(username=people.STAFF, password=second[people.STAFF])
