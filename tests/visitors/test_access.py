"""What a visitor may do, and what nobody else may do with a visitor's conversations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from criogen_threads import tickets
from criogen_threads.agents import ToolContext, tool
from criogen_threads.errors import TicketInvalidError
from criogen_threads.models import Event, Run, Thread, ToolCall
from criogen_threads.policy import Policy
from criogen_threads.visitors import AnonymousVisitor
from tests.api.support import Api, a_user, code_of
from tests.support import an_agent, call
from tests.visitors.support import Guest, a_visitor, request_of

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_visitor_has_a_conversation(guest: Guest) -> None:
    an_agent("Hello!", "Again!")
    assert [agent["name"] for agent in guest.get("agents/").json().get("results", ())] == []  # not somebody yet
    key = guest.begin()
    assert [agent["name"] for agent in guest.get("agents/").json()["results"]] == ["helper"]
    assert guest.send(key, "Hi")["status"] == "completed"
    assert guest.send(key, "Hi again")["status"] == "completed"
    said = guest.get(f"threads/{key}/messages/").json()["results"]
    assert [message["role"] for message in said] == ["user", "assistant"] * 2
    assert [thread["key"] for thread in guest.get("threads/").json()["results"]] == [key]
    assert [thread["key"] for thread in guest.get("threads/?owner=me").json()["results"]] == [key]
    thread, run = Thread.objects.get(), Run.objects.first()
    assert thread.owner is None
    assert run is not None
    assert (run.actor, run.visitor) == (None, thread.visitor)
    assert guest.token not in (None, thread.visitor)  # the rows do not say how to be this visitor
    assert guest.client.delete(f"/api/threads/{key}/").status_code == 204


def test_without_the_setting_there_are_no_visitors(guest: Guest, settings: SettingsWrapper) -> None:
    an_agent("Hello!")
    key = guest.begin()
    settings.CRIOGEN_THREADS = {}
    for path in ("threads/", f"threads/{key}/", "agents/"):
        assert code_of(guest.get(path), 401) == "not_authenticated"
    assert code_of(guest.post("threads/", agent="helper"), 401) == "not_authenticated"
    assert code_of(guest.post(f"threads/{key}/runs/", text="x"), 401) == "not_authenticated"
    assert not Run.objects.exists()


def test_visitors_talk_to_the_named_agents_only(guest: Guest, settings: SettingsWrapper) -> None:
    an_agent("Hello!")
    an_agent("Hello!", name="internal")
    assert code_of(guest.post("threads/", agent="internal"), 403) == "permission_denied"
    key = guest.begin()
    assert code_of(guest.post(f"threads/{key}/runs/", text="x", agent="internal"), 403) == "permission_denied"
    settings.CRIOGEN_THREADS |= {"VISITOR_AGENTS": ["internal"]}
    assert guest.get(f"threads/{key}/").status_code == 200  # to be read, not to be gone on with
    assert code_of(guest.post(f"threads/{key}/runs/", text="x"), 403) == "permission_denied"


def test_f62_another_visitors_thread_is_404(guest: Guest, other: Guest) -> None:
    an_agent("Hello!", "Hello!")
    key = guest.begin()
    run = guest.send(key, "Hi")["id"]
    other.begin()
    user = Api(a_user("user"))
    for stranger, status in ((other, 404), (user, 404), (Guest(), 401)):
        for path in ("", "messages/", "history/", "events/", "runs/"):
            assert stranger.get(f"threads/{key}/{path}").status_code == status, path
        for path in ("runs/", "retry/", "rewind/", "approve/", "reject/"):
            body = {"text": "x"} if path == "runs/" else {"checkpoint": run} if path == "rewind/" else {}
            assert stranger.post(f"threads/{key}/{path}", **body).status_code == status, path
        assert stranger.get(f"runs/{run}/").status_code == status
        assert stranger.post(f"runs/{run}/cancel/").status_code == status
        assert stranger.delete(f"threads/{key}/").status_code == status
    assert [thread["key"] for thread in other.get("threads/?owner=me").json()["results"]] != [key]
    assert user.get("threads/").json()["results"] == []


def test_nobody_guesses_a_key(guest: Guest, other: Guest) -> None:
    """Neither that of a conversation that is there, nor one that a site may give somebody else."""
    an_agent("Hello!")
    key = guest.begin()
    other.begin()
    assert code_of(other.post("threads/", agent="helper", key=key), 403) == "permission_denied"
    assert code_of(other.post("threads/", agent="helper", key="user-42"), 403) == "permission_denied"
    assert code_of(other.post("threads/user-42/runs/", text="x", agent="helper"), 404) == "thread_not_found"


def test_a_threads_owner_of_none_is_no_visitors(guest: Guest) -> None:
    """Of the site's own code, or of a user who was deleted."""
    agent = an_agent("Hello!")
    agent.thread("site").send_sync("Hi")
    guest.begin()
    assert guest.get("threads/site/").status_code == 404
    policy, thread = Policy(), Thread.objects.get(key="site")
    for nobody in (AnonymousVisitor(""), AnonymousVisitor("x")):
        assert not policy.see(nobody, thread)
        assert not policy.seen(nobody, Thread.objects.all()).filter(key="site").exists()
        assert not policy.decidable(nobody, ToolCall.objects.all()).exists()


def test_f62_a_visitors_changes_need_the_csrf_token(guest: Guest) -> None:
    an_agent("Hello!")
    key = guest.begin()
    client = Client(enforce_csrf_checks=True)
    client.cookies["sessionid"] = guest.client.cookies["sessionid"].value
    for path, body in ((f"threads/{key}/runs/", {"text": "x"}), ("threads/", {"agent": "helper"})):
        response = client.post(f"/api/{path}", json.dumps(body), content_type="application/json")
        assert code_of(response, 403) == "permission_denied", path
    assert code_of(client.delete(f"/api/threads/{key}/"), 403) == "permission_denied"
    newcomer = Client(enforce_csrf_checks=True)
    made = newcomer.post("/api/threads/", '{"agent": "helper"}', content_type="application/json")
    assert code_of(made, 403) == "permission_denied"
    assert Thread.objects.count() == 1
    assert not Run.objects.exists()


def test_f62_a_page_of_another_site_makes_no_session(settings: SettingsWrapper) -> None:
    an_agent("Hello!")
    newcomer = Client(enforce_csrf_checks=True)
    made = newcomer.post("/api/threads/", '{"agent": "helper"}', content_type="application/json")
    assert code_of(made, 403) == "permission_denied"
    assert not Session.objects.exists()
    assert not newcomer.cookies
    assert code_of(newcomer.get("/api/threads/"), 401) == "not_authenticated"
    settings.CRIOGEN_THREADS = {}
    made = newcomer.post("/api/threads/", '{"agent": "helper"}', content_type="application/json")
    assert code_of(made, 401) == "not_authenticated"


def test_a_ticket_is_a_visitors_own() -> None:
    request = request_of()
    ticket = tickets.sign(request, "visit", "helper")
    assert tickets.read(request, ticket) == tickets.Ticket("visit", "helper")
    for somebody in (request_of(), _seen_before()):
        with pytest.raises(TicketInvalidError):
            tickets.read(somebody, ticket)


def _seen_before() -> Any:
    request = request_of()
    tickets.sign(request, "other", "helper")
    return request


def test_a_tool_is_told_that_a_visitor_asks(guest: Guest) -> None:
    """Not None, which is the site's own code."""
    actors = []

    @tool
    def note(context: ToolContext) -> str:
        """Note."""
        actors.append(context.actor)
        return "ok"

    an_agent([call("note")], "done", tools=[note])
    key = guest.begin()
    assert guest.send(key, "Hi")["status"] == "completed"
    [actor] = actors
    assert actor == AnonymousVisitor(Thread.objects.get().visitor)
    assert not actor.is_authenticated
    assert actor.pk is None


def test_a_visitor_answers_what_the_owner_may_and_nothing_else(guest: Guest) -> None:
    ran = []

    @tool(approval="owner")
    def mine() -> str:
        """Mine."""
        ran.append("mine")
        return "ok"

    @tool(approval="staff")
    def theirs() -> str:
        """Theirs."""
        ran.append("theirs")
        return "ok"

    agent = an_agent([call("mine")], "done", [call("theirs")], "done", tools=[mine, theirs])
    key = guest.begin()
    guest.send(key, "Hi")
    [own] = guest.get("approvals/").json()["results"]
    assert guest.post(f"approvals/{own['id']}/decide/", approve=True, digest=own["digest"]).status_code in (200, 202)
    _until_at_rest(key)
    run = guest.send(key, "Again")
    assert run["status"] == "requires_action"
    assert guest.get("approvals/").json()["results"] == []
    assert (
        code_of(guest.post(f"threads/{key}/approve/", version=Thread.objects.get().version), 403) == "permission_denied"
    )
    staff = a_user("staff", "decide_toolcall", staff=True)
    assert agent.thread(key, actor=staff).approve_sync().text == "done"
    assert ran == ["mine", "theirs"]
    assert Event.objects.filter(type="approval_decided").count() == 2


def _until_at_rest(key: str) -> None:
    from criogen_threads.agents import get_agent
    from criogen_threads.engine import reads

    run = get_agent("helper").thread(key).get_current_run_sync()
    assert run is not None
    while not reads.rests(run["id"]):
        pass


def test_a_visitor_speaks_through_the_python_api_too() -> None:
    agent, visitor = an_agent("Hello!", "Hello!"), a_visitor()
    assert agent.thread("mine", actor=visitor).send_sync("Hi").text == "Hello!"
    assert Policy().owns(visitor, Thread.objects.get())
    with pytest.raises(Exception, match="no such thread"):
        agent.thread("mine", actor=a_visitor()).send_sync("Hi")
