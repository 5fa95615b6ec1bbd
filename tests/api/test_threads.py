"""Threads: create, list, search, describe, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from tests.api.support import Api, a_user, code_of
from tests.support import an_agent

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_thread_is_made_under_a_key_of_the_servers_choice(api: Api, owner: User) -> None:
    an_agent()
    made = api.post("threads/", agent="helper", title="Hi \0", metadata={"order": "A-1"})
    assert made.status_code == 201
    thread = made.json()
    assert thread["owner"] == str(owner.pk)
    assert thread["title"] == "Hi \0"
    assert thread["status"] == "idle"
    assert thread["key"] != thread["epoch"]
    assert api.get(f"threads/{thread['key']}/").json() == thread
    assert Thread.objects.get().owner == owner


def test_a_key_of_the_users_choice_is_refused(api: Api) -> None:
    an_agent()
    assert code_of(api.post("threads/", agent="helper", key="user-42"), 403) == "permission_denied"
    assert code_of(api.post("threads/user-42/runs/", text="hi", agent="helper"), 404) == "thread_not_found"
    assert not Thread.objects.exists()


@pytest.mark.parametrize("key", ["order.json", "ünï-čode", "日本語", "a%b&c=d?e#f", "x" * 200, "a+b"])
def test_a_key_may_hold_whatever_stands_between_two_slashes(api: Api, owner: User, key: str) -> None:
    an_agent("hello").thread(key, actor=owner).send_sync("hi")
    path = f"threads/{quote(key, safe='')}/"
    assert api.get(path).json()["key"] == key
    for part in ("messages", "history", "events", "runs"):
        assert api.get(f"{path}{part}/").json()["results"], part
    assert api.send(key, "more", wait=0)["thread"] == key


@pytest.mark.parametrize("key", ["x" * 201, "a b", "a\tb", "\0", "a\nb"])
def test_f37_a_key_that_no_thread_can_have_is_a_clear_400(api: Api, key: str) -> None:
    path = f"threads/{quote(key, safe='')}/"
    assert code_of(api.get(path), 400) == "invalid_thread_id"
    assert code_of(api.post(f"{path}runs/", text="hi", agent="helper"), 400) == "invalid_thread_id"
    assert code_of(api.get(f"{path}messages/"), 400) == "invalid_thread_id"


def test_the_list_shows_ones_own_newest_first_in_pages(api: Api, owner: User, stranger: User) -> None:
    agent = an_agent(*["ok"] * 9)
    for number in range(5):
        agent.thread(f"t{number}", actor=owner).send_sync("hi")
    agent.thread("other", actor=stranger).send_sync("hi")
    seen: list[str] = []
    path = "threads/?limit=2"
    for _ in range(3):
        page = api.get(path).json()
        seen += [thread["key"] for thread in page["results"]]
        path = (page["next"] or "").partition("/api/")[2]
    assert seen == ["t4", "t3", "t2", "t1", "t0"]
    assert path == ""


def test_the_list_is_searched(api: Api, owner: User) -> None:
    for name in ("one", "two"):
        agent = an_agent("ok", name=name)
        handle = agent.thread(name, actor=owner)
        handle.send_sync("hi")
        handle.describe_sync(metadata={"order": name, "deep": {"n": 1}, "paid": name == "one"})

    def keys(query: str) -> list[str]:
        return [thread["key"] for thread in api.get(f"threads/?{query}").json()["results"]]

    assert keys("agent=one") == ["one"]
    assert keys("status=idle") == ["two", "one"]
    assert keys("status=failed") == []
    assert keys("owner=me") == keys(f"owner={owner.pk}") == ["two", "one"]
    assert keys("owner=999999") == []
    assert keys('metadata={"order":"two"}') == ["two"]
    assert keys('metadata={"paid":true,"order":"one"}') == ["one"]
    assert keys('metadata={"deep":{"n":1}}') == ["two", "one"]
    assert keys('metadata={"n":1}') == []  # it stands deeper


def test_interrupted_is_a_status_that_can_be_searched_and_shown(api: Api, owner: User) -> None:
    an_agent("ok").thread("one", actor=owner).send_sync("hi")
    Run.objects.update(status="in_progress")
    Thread.objects.update(status="running", holder=None)
    assert api.get("threads/one/").json()["status"] == "interrupted"
    assert [thread["status"] for thread in api.get("threads/?status=interrupted").json()["results"]] == ["interrupted"]
    assert api.get("threads/?status=running").json()["results"] == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "cursor=x", "status=none", "owner=x", "owner=" + "9" * 40, "metadata=[1]",
     "metadata={", "agent=%00", "metadata=" + "[" * 5000],
)  # fmt: skip
def test_a_query_that_does_not_fit_is_400(api: Api, query: str) -> None:
    assert code_of(api.get(f"threads/?{query}"), 400) == "invalid_option"


def test_title_and_metadata_are_patched(api: Api, owner: User) -> None:
    an_agent("ok").thread("one", actor=owner).send_sync("hi")
    assert api.patch("threads/one/", title="New").json()["title"] == "New"
    patched = api.patch("threads/one/", metadata={"a": [1, None]}).json()
    assert (patched["title"], patched["metadata"]) == ("New", {"a": [1, None]})
    assert code_of(api.patch("threads/one/", tittle="x"), 400) == "invalid_option"
    assert code_of(api.patch("threads/one/", title="\ud800"), 400) == "invalid_state"


def test_f35_delete_leaves_nothing(api: Api, owner: User) -> None:
    an_agent("ok").thread("one", actor=owner).send_sync("hi")
    assert api.delete("threads/one/").status_code == 204
    assert not any(model.objects.exists() for model in (Thread, Run, Checkpoint, Message, ToolCall, Event))
    assert code_of(api.delete("threads/one/"), 404) == "thread_not_found"


def test_queries_do_not_grow_with_the_list(owner: User) -> None:
    agent = an_agent(*["ok"] * 30)
    api = Api(owner)

    def counted(path: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert api.get(path).status_code == 200
        return len(queries)

    paths = ["threads/", "approvals/", "threads/t0/messages/", "threads/t0/history/", "threads/t0/events/",
             "threads/t0/runs/"]  # fmt: skip
    agent.thread("t0", actor=owner).send_sync("hi")
    few = [counted(path) for path in paths]
    for number in range(6):
        agent.thread(f"t{number}", actor=owner).send_sync("hi")
    assert [counted(path) for path in paths] == few
    assert max(few) <= 10


def test_a_staff_member_with_the_permission_sees_all_threads(owner: User) -> None:
    an_agent("ok").thread("one", actor=owner).send_sync("hi")
    viewer = Api(a_user("viewer", "view_transcript", staff=True))
    assert [thread["key"] for thread in viewer.get("threads/").json()["results"]] == ["one"]
    assert Api(a_user("other", staff=True)).get("threads/").json()["results"] == []
