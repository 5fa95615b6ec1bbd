"""Edit and resend, and the way back to what was said before: the branches of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from criogen_threads.agents import tool
from tests.api.support import Api, code_of
from tests.support import an_agent, call

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def chat(owner: User) -> Any:
    handle = an_agent(*[f"answer {number}" for number in range(6)]).thread("one", actor=owner)
    handle.send_sync("first")
    handle.send_sync("second")
    return handle


def said(api: Api) -> list[str]:
    return [message["content"][0]["text"] for message in api.get("threads/one/messages/").json()["results"]]


def siblings(api: Api, position: int) -> list[dict[str, Any]]:
    message = api.get("threads/one/messages/").json()["results"][position - 1]
    found: list[dict[str, Any]] = api.get(f"threads/one/messages/{message['id']}/siblings/").json()["results"]
    return found


def test_a_message_is_edited_and_sent_again_and_the_first_one_too(api: Api, chat: Any) -> None:
    for position, text in ((3, "second, edited"), (1, "first, edited")):
        before = siblings(api, position)[0]["before"]
        assert (before == "beginning") == (position == 1)
        run = api.send("one", text, checkpoint=before)
        assert run["status"] == "completed"
        assert said(api)[position - 1] == text
        assert len(said(api)) == position + 1


def test_siblings_lead_to_every_branch_and_back(api: Api, chat: Any) -> None:
    api.send("one", "second, edited", checkpoint=siblings(api, 3)[0]["before"])
    api.send("one", "third")
    newer, edited = said(api), siblings(api, 3)
    assert [each["content"][0]["text"] for each in edited] == ["second", "second, edited"]
    assert [each["current"] for each in edited] == [False, True]
    assert edited[0]["parent_id"] == edited[1]["parent_id"] is not None
    api.post("threads/one/rewind/", checkpoint=edited[0]["checkpoint"])
    assert said(api) == ["first", "answer 0", "second", "answer 1"]
    assert [each["current"] for each in siblings(api, 3)] == [True, False]
    api.post("threads/one/rewind/", checkpoint=siblings(api, 3)[1]["checkpoint"])
    assert said(api) == newer, "the newest of the branch, with what was said there since"


def test_messages_say_which_of_their_siblings_they_are(api: Api, chat: Any) -> None:
    api.send("one", "second, edited", checkpoint=siblings(api, 3)[0]["before"])
    page = api.get("threads/one/messages/?branches=1").json()["results"]
    assert [(each["index"], each["siblings"]) for each in page] == [(0, 1), (0, 1), (1, 2), (0, 1)]
    api.send("one", "first, edited", checkpoint="beginning")
    page = api.get("threads/one/messages/?branches=true&limit=1").json()
    assert [(each["index"], each["siblings"]) for each in page["results"]] == [(0, 1)]
    earlier = api.get(page["next"].partition("/api/")[2]).json()["results"]
    assert [(each["index"], each["siblings"]) for each in earlier] == [(1, 2)]
    assert "index" not in api.get("threads/one/messages/").json()["results"][0]
    assert code_of(api.get("threads/one/messages/?branches=yes"), 400) == "invalid_option"


def test_an_answer_is_asked_for_again(api: Api, chat: Any) -> None:
    [answer] = siblings(api, 4)
    api.post("threads/one/rewind/", checkpoint=answer["before"])
    assert said(api) == ["first", "answer 0", "second"]
    assert api.post("threads/one/retry/?wait=10").json()["status"] == "completed"
    assert [each["content"][0]["text"] for each in siblings(api, 4)] == ["answer 1", "answer 1"]
    assert [each["current"] for each in siblings(api, 4)] == [False, True]


def test_an_unknown_message_has_none_and_another_threads_is_unknown(api: Api, chat: Any, stranger: User) -> None:
    theirs = an_agent("ok", name="other").thread("two", actor=stranger).send_sync("hi").messages[0]["id"]
    for name in (theirs, str(uuid4()), "x"):
        assert code_of(api.get(f"threads/one/messages/{name}/siblings/"), 404) == "not_found"
        assert chat.siblings_sync(name) == []


def test_the_beginning_has_no_state_and_nothing_to_retry_and_can_be_left_again(api: Api, owner: User) -> None:
    chat = an_agent("a", "b").thread("one", actor=owner)
    chat.send_sync("first", mood="good")
    newest = chat.history_sync()[0]
    assert api.post("threads/one/rewind/", checkpoint="beginning").json()["source"] == "fork"
    assert chat.messages_sync() == []
    assert [each["source"] for each in chat.history_sync()] == ["fork"]
    assert code_of(api.post("threads/one/retry/"), 409) == "resume_invalid"
    chat.rewind_sync(newest["id"])
    assert said(api) == ["first", "a"]
    assert code_of(api.post("threads/one/rewind/", checkpoint="Beginning"), 400) == "invalid_option"


def test_nobody_goes_back_to_the_beginning_behind_what_was_done(api: Api, owner: User) -> None:
    @tool
    def act() -> str:
        """Do something."""
        return "done"

    an_agent([call("act")], "ok", tools=[act]).thread("one", actor=owner).send_sync("hi")
    response = api.post("threads/one/runs/", text="again", checkpoint="beginning")
    assert code_of(response, 403) == "permission_denied"
    assert response.json()["details"] == {"tools": ["act"]}
    assert len(api.get("threads/one/messages/").json()["results"]) == 4


def test_what_a_tool_hides_is_hidden_among_siblings_too(api: Api, owner: User) -> None:
    @tool(visible="staff")
    def peek(what: str) -> str:
        """Look."""
        return "behind the curtain"

    chat = an_agent([call("peek", what="w")], "ok", tools=[peek]).thread("one", actor=owner)
    chat.send_sync("hi")
    for message in chat.messages_sync():
        response = api.get(f"threads/one/messages/{message['id']}/siblings/")
        assert b"peek" not in response.content
        assert b"curtain" not in response.content


def test_f55_answers_come_as_sanitised_html_where_asked_for(api: Api, owner: User) -> None:
    chat = an_agent("**Hello** <script>alert(1)</script>").thread("one", actor=owner)
    chat.send_sync("**Hi**")
    question, answer = api.get("threads/one/messages/?html=1").json()["results"]
    assert question["html"] is None
    assert "<strong>Hello</strong>" in answer["html"]
    assert "<script" not in answer["html"]
    assert "html" not in api.get("threads/one/messages/").json()["results"][0]


def test_events_after_a_number_from_python(chat: Any) -> None:
    everything = chat.events_sync()
    middle = everything[4]["seq"]
    assert chat.events_sync(after=middle) == everything[5:]
    assert chat.events_sync(after=middle, limit=2) == everything[5:7]
    assert chat.events_sync(after=middle, type="message") == [e for e in everything[5:] if e["type"] == "message"]
    assert chat.events_sync(after=10_000) == []
