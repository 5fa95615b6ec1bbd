"""The agency over REST: who answers, who asked whom, and what people are shown of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from criogen_threads.agents import Agent, Summary, tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Message, ToolCall
from criogen_threads.policy import get_policy
from tests.agency.support import a_desk, an_agency, ask, threads_of
from tests.api.support import Api, a_user, code_of
from tests.console.support import eventually
from tests.support import Heard, an_agent, call, results, texts

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from criogen_threads.agents import Agency

pytestmark = pytest.mark.django_db(transaction=True)


@tool(approval="owner", secrets=["card"])
def pay(amount: int, card: str) -> str:
    return f"paid {amount}"


@pytest.fixture
def owner(transactional_db: None) -> User:
    return a_user("owner")


@pytest.fixture
def api(owner: User) -> Api:
    return Api(owner)


def a_payment(**options: Any) -> Agency:
    """front asks billing, which pays when the owner agrees, and travel at the same time."""
    billing = [[call("pay", amount=5, card="4111-1111")], "paid it"]
    return a_desk([[ask("billing"), ask("travel")], "all done"], billing, ["a train"], tools=[pay], **options)


def begin(agency: Agency, user: User) -> str:
    agency.create_thread_sync(thread_id="one", actor=user)
    return agency.entry.thread("one", actor=user).send_sync("go").run_id


def billing_thread() -> Any:
    [found] = [thread for thread in threads_of("one") if thread.agent == "billing"]
    return found


def test_b18_another_agent_for_one_message_and_from_now_on(api: Api, owner: User) -> None:
    an_agency(entry=Agent("a", model=Heard(*["by a"] * 3)), specialists=[Agent("b", model=Heard(*["by b"] * 3))])
    key = api.post("threads/", agent="a").json()["key"]
    assert api.send(key, "hi", agent="b")["agent"] == "b"
    assert api.send(key, "hi")["agent"] == "a"
    changed = api.patch(f"threads/{key}/", agent="b", title="Trains")
    assert changed.status_code == 200
    assert (changed.json()["agent"], changed.json()["title"]) == ("b", "Trains")
    assert api.send(key, "hi")["agent"] == "b"
    said = api.get(f"threads/{key}/messages/").json()["results"]
    assert [message["agent"] for message in said if message["role"] == "assistant"] == ["b", "a", "b"]
    [switched] = [e for e in api.get(f"threads/{key}/events/").json()["results"] if e["type"] == "agent_switch"]
    assert switched["details"] == {"from": "a", "to": "b"}


def test_b18_only_agents_that_one_may_talk_to_and_nothing_half_written(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_agency(entry=Agent("a", model=Heard("by a")), specialists=[Agent("b", model=Heard("by b"))])
    key = api.post("threads/", agent="a").json()["key"]
    assert code_of(api.patch(f"threads/{key}/", agent="nobody", title="x"), 404) == "agent_not_found"
    monkeypatch.setattr(type(get_policy()), "use", lambda _self, _user, agent: agent == "a")
    assert code_of(api.patch(f"threads/{key}/", agent="b", title="x"), 403) == "permission_denied"
    assert code_of(Api(a_user("stranger")).patch(f"threads/{key}/", agent="a"), 404) == "thread_not_found"
    thread = api.get(f"threads/{key}/").json()
    assert (thread["agent"], thread["title"]) == ("a", "")


def test_b17_the_runs_of_asked_agents_are_their_owner_s_to_see(api: Api, owner: User) -> None:
    run_id = begin(a_payment(), owner)
    [run] = api.get("threads/one/runs/").json()["results"]
    assert (run["id"], run["agent"], run["parent_run"]) == (run_id, "front", None)
    assert set(run["usage"]["agents"]) == {"front", "billing", "travel"}
    tree = api.get(f"runs/{run_id}/tree/").json()
    asked = {each["run"]["agent"]: each["run"] for each in tree["calls"]}
    assert set(asked) == {"billing", "travel"}
    assert [each["tool_name"] for each in asked["billing"]["calls"]] == ["pay"]
    assert asked["travel"]["status"] == "completed"
    below = api.get(f"runs/{asked['billing']['run_id']}/").json()
    assert (below["parent_run"], below["thread"]) == (run_id, billing_thread().key)
    assert [thread["key"] for thread in api.get("threads/").json()["results"]] == ["one"]
    assert code_of(Api(a_user("stranger")).get(f"runs/{run_id}/tree/"), 404) == "run_not_found"
    assert code_of(api.patch(f"threads/{billing_thread().key}/", agent="front"), 409) == "thread_delegated"


def test_b17_the_feed_leads_to_the_asked_agent_and_back(api: Api, owner: User) -> None:
    run_id = begin(a_payment(), owner)
    caller, billing = (next(each for each in threads_of("one") if each.agent == name) for name in ("front", "billing"))
    asked = [value for name, value in _customs(api, caller) if name == "criogen.tool_started"]
    assert {each["agent"] for each in asked} == {"billing", "travel"}
    assert str(billing.current_run_id) in {each["runId"] for each in asked}
    frames = _frames(api, billing)
    [started] = [event for frame in frames for event in frame["events"] if event["type"] == "RUN_STARTED"]
    assert (started["runId"], started["parentRunId"]) == (str(billing.current_run_id), run_id)
    assert {frame["agent"] for frame in frames if frame["seq"]} == {"billing"}
    [requested] = [value for name, value in _customs(api, billing) if name == "criogen.approval_requested"]
    assert requested["arguments"] == {"amount": 5, "card": "[hidden]"}


def _frames(api: Api, thread: Any) -> list[dict[str, Any]]:
    return list(api.get(f"threads/{thread.key}/feed/?epoch={thread.pk}&after=0").json()["results"])


def _customs(api: Api, thread: Any) -> list[tuple[str, Any]]:
    events = [event for frame in _frames(api, thread) for event in frame["events"]]
    return [(event["name"], event["value"]) for event in events if event["type"] == "CUSTOM"]


def test_b17_an_approval_of_an_asked_agent_says_who_asked_whom(api: Api, owner: User) -> None:
    run_id = begin(a_payment(), owner)
    [waiting] = api.get(f"runs/{run_id}/").json()["required_action"]
    [queued] = api.get("approvals/").json()["results"]
    for view in (waiting, queued):
        assert (view["agent"], view["name"]) == ("billing", "pay")
        assert view["arguments"] == {"amount": 5, "card": "[hidden]"}
        assert [(link["agent"], link["thread"]) for link in view["chain"]] == [
            ("front", "one"), ("billing", billing_thread().key),
        ]  # fmt: skip
    [shown] = api.get("threads/one/feed/").json()["pending"]
    asking = ToolCall.objects.get(child_run__thread=billing_thread())
    assert (shown["within"], shown["mine"]) == (f"{asking.message_id}:{asking.index}", True)
    assert [link["agent"] for link in shown["chain"]] == ["front", "billing"]
    response = api.post(f"approvals/{waiting['id']}/decide/", approve=True, digest=waiting["digest"])
    assert response.status_code == 202
    assert (response.json()["thread"], response.json()["run_id"]) == ("one", run_id)  # where people speak
    assert queued["thread"] == "one"
    eventually(lambda: ToolCall.objects.get(name="pay").status == "done")
    assert results(api.get("threads/one/messages/").json()["results"])[0] == "a train"
    eventually(lambda: api.get(f"runs/{run_id}/").json()["status"] == "completed")
    assert code_of(api.post(f"approvals/{waiting['id']}/decide/", approve=False), 409) == "resume_invalid"


def test_a_page_of_approvals_costs_as_many_queries_whoever_asked_for_them(api: Api, owner: User) -> None:
    agency = a_payment()

    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert api.get("approvals/").status_code == 200
        return len(caught)

    def wait_in(key: str) -> None:
        agency.create_thread_sync(thread_id=key, actor=owner)
        assert agency.entry.thread(key, actor=owner).send_sync("go").status == "suspended"

    wait_in("one")
    queries()  # what is read once for all is read now
    first = queries()
    for key in ("two", "three", "four"):
        wait_in(key)
    assert len(api.get("approvals/").json()["results"]) == 4
    assert queries() == first


@pytest.mark.parametrize("visible", ["name", "staff"])
def test_that_agents_ask_each_other_is_shown_to_staff_only_where_the_agency_says_so(
    api: Api, owner: User, visible: str
) -> None:
    run_id = begin(a_payment(visible=visible), owner)
    billing = billing_thread()
    told = [
        api.get(path)
        for path in (
            "threads/", "threads/one/", "threads/one/messages/?branches=1", "threads/one/events/", "threads/one/runs/",
            "threads/one/history/", f"runs/{run_id}/", f"runs/{run_id}/tree/", "approvals/", "threads/one/feed/",
        )
    ]  # fmt: skip
    for response in told:
        assert response.status_code == 200
        for secret in (billing.key, "billing", "travel", "Please.", "a train", "4111-1111"):
            assert secret not in response.content.decode(), response.request["PATH_INFO"]
    [waiting] = api.get(f"runs/{run_id}/").json()["required_action"]
    assert (waiting["agent"], waiting["chain"]) == ("front", [])
    assert code_of(api.get(f"threads/{billing.key}/messages/"), 404) == "thread_not_found"
    assert code_of(api.get(f"runs/{billing.current_run_id}/"), 404) == "run_not_found"
    staff = Api(a_user("staff", "view_transcript", staff=True))
    assert staff.get(f"threads/{billing.key}/messages/").status_code == 200
    assert {each["agent"] for each in _runs(staff.get(f"runs/{run_id}/tree/").json())} == {"front", "billing", "travel"}
    decided = api.post(f"approvals/{waiting['id']}/decide/", approve=False)  # it is still the owner's to answer
    assert decided.status_code == 202
    assert billing.key not in decided.content.decode()
    eventually(lambda: api.get(f"runs/{run_id}/").json()["status"] == "completed")
    for path in ("messages/", "events/", "feed/"):
        assert "paid it" not in api.get(f"threads/one/{path}").content.decode()


def test_b22_a_summary_is_no_version_of_what_was_said(api: Api, owner: User) -> None:
    agent = an_agent(model=ScriptedModel(lambda *_: "a secret of a tool"), window=Summary(1, 1))
    chat = agent.thread("one", actor=owner)
    for text in "abc":
        chat.send_sync(text, client_id=text)
    assert Message.objects.filter(role="user").count() == 5  # with two summaries
    said = api.get("threads/one/messages/?branches=1").json()["results"]
    assert {message["siblings"] for message in said} == {1}
    for message in said:
        [itself] = api.get(f"threads/one/messages/{message['id']}/siblings/").json()["results"]
        assert itself["id"] == message["id"]
    summaries = [e for e in chat.get_events_sync() if e["type"] == "summary"]
    assert len(summaries) == 2
    again = chat.send_sync("c", client_id="c")
    assert texts(again.messages) == ["user: c", "assistant: a secret of a tool"]


def _runs(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree, *(run for each in tree["calls"] if each["run"] for run in _runs(each["run"]))]


def test_the_policy_says_of_rows_what_it_says_of_querysets(owner: User) -> None:
    begin(a_payment(visible="name"), owner)
    policy, threads = get_policy(), threads_of("one")
    keys = {thread.key for thread in threads if policy.see(owner, thread)}
    assert keys == {"one"} == set(policy.seen(owner, type(threads[0]).objects.all()).values_list("key", flat=True))
    assert [thread.key for thread in policy.sendable(owner, type(threads[0]).objects.all())] == ["one"]
