"""What people are shown where an agency hides who was asked, and of calls from before a hand-over."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import django
import pytest
from django.core import mail

from criogen_threads.agents import Agent, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.models import Event, ToolCall
from tests.agency.support import a_desk, an_agency, ask, threads_of
from tests.api.support import Api, a_user
from tests.console.support import Staff, body, eventually
from tests.support import Heard, an_agent, call, refused

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

    from criogen_threads.agents import Agency

pytestmark = pytest.mark.django_db(transaction=True)


@tool(approval="owner")
def pay() -> str:
    return "paid"


@tool(approval="staff", visible="staff")
def audit() -> str:
    return "audited"


@tool(approval="owner", secrets=["card"])
def charge(card: str) -> str:
    return "charged"


@pytest.fixture
def owner(transactional_db: None) -> User:
    user = a_user("owner")
    user.email = "owner@example.com"
    user.save()
    return user


@pytest.fixture
def told(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {**settings.CRIOGEN_THREADS, "NOTIFY_EMAIL": True}
    if django.VERSION >= (6, 1):
        settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}


def begin(agency: Agency, user: User) -> Any:
    agency.create_thread_sync(thread_id="one", actor=user)
    return agency.entry.thread("one", actor=user)


# Notices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("visible", "agent"), [("all", "billing"), ("name", "front"), ("staff", "front")])
def test_b17_a_notice_of_an_asked_agent_is_of_the_conversation_that_its_reader_knows(
    told: None, owner: User, visible: Any, agent: str
) -> None:
    agency = a_desk([[ask("billing")], "done"], [[call("pay")], "paid"], tools=[pay], visible=visible)
    begin(agency, owner).send_sync("go")
    eventually(lambda: len(mail.outbox) == 1)
    [message] = mail.outbox
    assert (message.to, message.subject) == (["owner@example.com"], "An approval waits: pay")
    assert message.body.startswith(f"The agent {agent} wants to use pay in the thread one,")
    assert threads_of("one")[1].key not in message.body


def test_nobody_is_told_of_a_call_that_is_kept_from_them(told: None, owner: User) -> None:
    boss = a_user("boss", superuser=True)
    boss.email = "boss@example.com"
    boss.save()
    agent = an_agent([call("audit"), call("pay")], "done", tools=[audit, pay])
    agent.thread("one", actor=owner).send_sync("go")
    eventually(lambda: len(mail.outbox) == 2)
    assert {(message.to[0], message.subject) for message in mail.outbox} == {
        ("boss@example.com", "An approval waits: audit"), ("owner@example.com", "An approval waits: pay"),
    }  # fmt: skip
    mail.outbox.clear()
    agent.thread("one", actor=boss).answer_sync({str(each.pk): True for each in ToolCall.objects.filter(name="audit")})
    agent.thread("one").answer_sync({str(each.pk): True for each in ToolCall.objects.filter(name="pay")})
    eventually(lambda: len(mail.outbox) > 0)
    assert [(message.to, message.subject) for message in mail.outbox] == [(["owner@example.com"], "Approved: pay")]


# Failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("visible", ["all", "name", "staff"])
def test_b17_why_a_caller_failed_names_an_asked_agent_only_where_people_are_shown_it(
    owner: User, visible: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agency = a_desk([[ask("billing")]], [ModelError("down", passing=False)], visible=visible)
    with refused("model_failed"), caplog.at_level(logging.WARNING, "criogen_threads"):
        begin(agency, owner).send_sync("go")
    api, openly = Api(owner), visible == "all"
    [run] = api.get("threads/one/runs/").json()["results"]
    assert "down" in run["last_error"]
    for path in ("runs/", "events/", "feed/?after=0"):
        assert ("billing" in api.get(f"threads/one/{path}").content.decode()) == openly, path
    assert ("billing failed" in caplog.text) != openly


# Behind a hand-over ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", ["gone", "open"])
def test_b17_a_call_from_before_a_hand_over_is_of_the_agent_that_made_it(owner: User, there: str) -> None:
    """Agent b has no such tool, or one of this name that keeps nothing secret."""

    @tool(name="charge")
    def unsecret(card: str) -> str:
        return "charged"

    tools = {"gone": [], "open": [unsecret]}[there]
    first = Heard([call("charge", card="4111-1111"), call("hand_over", agent="b")])
    agents = [Agent("a", model=first, tools=[charge]), Agent("b", model=Heard("-", "b here"), tools=tools)]
    agency = an_agency(entry=agents[0], specialists=agents[1:], delegates={}, hands_over={"a": ["b"]})
    chat = begin(agency, owner)
    chat.send_sync("go")
    assert chat.approve_sync().text == "b here"
    charged = ToolCall.objects.select_related("run").get(name="charge")
    staff = Staff("boss", superuser=True)
    export = body(staff.get(f"thread/{charged.thread_id}/export.json"))
    [approval] = json.loads(export)["approvals"]
    assert approval["arguments"] == {"card": "[hidden]"}
    page = staff.text(f"approval/{charged.pk}/change/")
    assert "[hidden]" in page
    for text in (export, page, staff.text("approval/?status=all"), staff.text(f"thread/{charged.thread_id}/change/")):
        assert "4111-1111" not in text
    assert (charged.run.agent, charged.agent) == ("b", "a")


def test_b17_a_call_left_open_behind_a_hand_over_is_closed_in_the_name_of_its_agent(owner: User) -> None:
    first = Heard([call("charge", card="4111-1111"), call("hand_over", agent="b")], "a again")
    agents = [Agent("a", model=first, tools=[charge]), Agent("b", model=Heard("-", "b here"))]
    agency = an_agency(entry=agents[0], specialists=agents[1:], delegates={}, hands_over={"a": ["b"]})
    chat = begin(agency, owner)
    chat.send_sync("go")
    [waiting] = [each["id"] for each in chat.history_sync() if each["status"] == "suspended"]
    assert chat.approve_sync().text == "b here"
    agency.entry.thread(chat.id).rewind_sync(waiting)  # the site may undo what was paid
    chat.cancel_sync()
    assert chat.send_sync("something else").text == "a again"
    closed = [message["agent"] for message in chat.messages_sync() if message["role"] == "tool"]
    assert closed == ["a", "a"]
    assert set(Event.objects.filter(type="tool_error").values_list("agent", flat=True)) == {"a"}
