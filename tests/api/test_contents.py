"""Pages of what was said and done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.models import Message
from tests.api.support import Api, code_of
from tests.support import an_agent

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def chat(owner: User) -> Any:
    handle = an_agent(*[f"answer {number}" for number in range(6)]).thread("one", actor=owner)
    for number in range(4):
        handle.send_sync(f"question {number}")
    return handle


def pages(api: Api, path: str) -> list[list[Any]]:
    found = []
    while path:
        page = api.get(path).json()
        found.append(page["results"])
        path = (page["next"] or "").partition("/api/")[2]
    return found


def test_messages_walk_back_from_the_newest_page(api: Api, chat: Any) -> None:
    found = pages(api, "threads/one/messages/?limit=3")
    positions = [[message["position"] for message in page] for page in found]
    assert positions == [[6, 7, 8], [3, 4, 5], [1, 2]]
    assert found[0][-1] == chat.messages_sync()[-1]


def test_before_walks_the_ancestors_of_that_message_also_off_the_branch(api: Api, chat: Any) -> None:
    left = chat.messages_sync()[-1]["id"]
    first = chat.history_sync(limit=100)[-2]["id"]
    chat.rewind_sync(first)
    assert len(api.get("threads/one/messages/").json()["results"]) == 2
    page = api.get(f"threads/one/messages/?before={left}").json()["results"]
    assert [message["position"] for message in page] == [1, 2, 3, 4, 5, 6, 7]


def test_f34_history_comes_in_pages_and_carries_no_bodies(api: Api, chat: Any) -> None:
    found = pages(api, "threads/one/history/?limit=3")
    versions = [checkpoint["version"] for page in found for checkpoint in page]
    assert versions == [8, 7, 6, 5, 4, 3, 2, 1]
    assert set(found[0][0]) == {
        "id", "version", "status", "source", "step", "run_id", "parent_id", "created_at_ms"
    }  # fmt: skip
    assert b"question" not in api.get("threads/one/history/").content


def test_events_go_on_after_a_number_and_are_filtered(api: Api, chat: Any) -> None:
    everything = chat.get_events_sync()
    found = pages(api, "threads/one/events/?limit=7")
    assert [event for page in found for event in page] == everything
    last = everything[-1]["seq"]
    assert api.get(f"threads/one/events/?after={last}").json()["results"] == []
    run = everything[-1]["run_id"]
    some = api.get(f"threads/one/events/?run={run}&type=run_start&agent=helper").json()["results"]
    assert [(event["run_id"], event["type"]) for event in some] == [(run, "run_start")]


def test_pages_carry_the_epoch_and_the_seq_that_was_read_first(api: Api, chat: Any) -> None:
    thread = api.get("threads/one/").json()
    for part in ("messages", "history", "events", "runs"):
        page = api.get(f"threads/one/{part}/").json()
        assert (page["epoch"], page["seq"]) == (thread["epoch"], thread["seq"])


def test_runs_are_listed_newest_first(api: Api, chat: Any) -> None:
    found = pages(api, "threads/one/runs/?limit=3")
    assert [[run["number"] for run in page] for page in found] == [[4, 3, 2], [1]]


@pytest.mark.parametrize(
    "query",
    ["messages/?before=x", "messages/?before=0198c5a0-0000-7000-8000-000000000000", "history/?before=x",
     "history/?limit=-1", "events/?after=-1", "events/?after=x", "events/?after=" + "9" * 30, "events/?run=x",
     "events/?type=%00", "runs/?before=x", "feed/?cursor=x", "feed/?cursor=W10", "feed/?cursor=%C3%BC",
     "feed/?after=-1", "feed/?html=2", "feed/?wait=31"],
)  # fmt: skip
def test_a_place_that_is_none_is_400(api: Api, chat: Any, query: str) -> None:
    assert code_of(api.get(f"threads/one/{query}"), 400) == "invalid_option"


def test_before_names_no_message_of_another_thread(api: Api, chat: Any, stranger: User) -> None:
    an_agent("ok", name="other").thread("two", actor=stranger).send_sync("hi")
    theirs = Message.objects.filter(thread__key="two").order_by("-position").first()
    assert code_of(api.get(f"threads/one/messages/?before={theirs.pk}"), 400) == "invalid_option"  # type: ignore[union-attr]


def test_an_empty_thread_has_empty_pages(api: Api) -> None:
    an_agent("ok")
    key = api.post("threads/", agent="helper").json()["key"]
    for part in ("messages", "history", "events", "runs"):
        page = api.get(f"threads/{key}/{part}/").json()
        assert (page["results"], page["next"]) == ([], None)


def test_a_stream_needs_an_asgi_server(api: Api, chat: Any) -> None:
    response = api.get("threads/one/events/", Accept="text/event-stream")
    assert code_of(response, 501) == "asgi_required"
