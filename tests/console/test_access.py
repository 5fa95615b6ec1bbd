"""Every page and every action, asked for by everybody."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from criogen_threads.models import Checkpoint, Event, Run, Thread, ToolCall
from tests.console.support import Staff, a_waiting_thread, thread

if TYPE_CHECKING:
    from criogen_threads.models import Thread as AThread

pytestmark = pytest.mark.django_db(transaction=True)

EVERYTHING = ("decide_toolcall", "view_transcript", "rewind_thread", "cancel_run", "retry_run", "delete_thread")

PEOPLE = {
    "nobody": None,
    "customer": {"staff": False, "permissions": EVERYTHING},
    "bare": {"permissions": ()},
    "viewer": {"permissions": ("view_transcript",)},
    "approver": {"permissions": ("decide_toolcall", "view_transcript")},
    "decider": {"permissions": ("decide_toolcall",)},
    "operator": {"permissions": EVERYTHING},
    "superuser": {"superuser": True, "permissions": ()},
}
READERS = {"viewer", "approver", "operator", "superuser"}
DECIDERS = {"approver", "decider", "operator", "superuser"}
OPERATORS = {"operator", "superuser"}

PAGES = {
    "thread/": READERS,
    "thread/{thread}/change/": READERS,
    "thread/{thread}/live/": READERS,
    "thread/{thread}/runs/": READERS,
    "thread/{thread}/branches/": READERS,
    "thread/{thread}/differences/?from={checkpoint}&to={checkpoint}": READERS,
    "thread/{thread}/events/": READERS,
    "thread/{thread}/messages/{message}/": READERS,
    "thread/{thread}/history/": READERS,
    "thread/{thread}/export.json": READERS,
    "thread/{thread}/export.md": READERS,
    "thread/{thread}/rewind/?checkpoint={checkpoint}": OPERATORS,
    "thread/{thread}/delete/": OPERATORS,
    "approval/": READERS | DECIDERS,
    "approval/{call}/change/": READERS | DECIDERS,
    "approval/{call}/live/": READERS | DECIDERS,
}
ACTIONS = {
    "thread/{thread}/rewind/": OPERATORS,
    "thread/{thread}/retry/": OPERATORS,
    "thread/{thread}/cancel/": OPERATORS,
    "thread/{thread}/delete/": OPERATORS,
    "approval/{call}/answer/": DECIDERS,
    "approval/answer/": DECIDERS,
}
ONLY_POST = ["thread/{thread}/retry/", "thread/{thread}/cancel/", "approval/{call}/answer/", "approval/answer/"]
NEVER = ["thread/add/", "approval/add/"]


def person(name: str) -> Staff:
    given = PEOPLE[name]
    if given is None:
        someone = Staff("passer-by")
        someone.client.logout()
        return someone
    permissions = given["permissions"]
    return Staff(name, *permissions, staff=given.get("staff", True), superuser=given.get("superuser", False))  # type: ignore[attr-defined, misc]


def rows() -> dict[str, object]:
    call = a_waiting_thread()
    first = Checkpoint.objects.order_by("version")[0]
    return {"thread": call.thread_id, "call": call.pk, "checkpoint": first.pk, "message": first.message_id}


def state() -> tuple[object, ...]:
    found: AThread | None = Thread.objects.first()
    answered = ToolCall.objects.exclude(decided_at=None).count()
    return (found and (found.version, found.status, found.event_seq), answered, Run.objects.count())


@pytest.mark.parametrize("name", PEOPLE)
def test_f61_every_page_asks_for_its_permission(transactional_db: None, name: str) -> None:
    here, someone = rows(), person(name)
    for page, allowed in PAGES.items():
        with closing(someone.get(page.format(**here))) as response:
            expected = {200} if name in allowed else {302, 403, 404}
            assert response.status_code in expected, (name, page, response.status_code)


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("action", ACTIONS)
def test_f61_every_action_asks_for_its_permission(transactional_db: None, name: str, action: str) -> None:
    here, someone = rows(), person(name)
    before, digest = state(), ToolCall.objects.get(pk=here["call"]).arguments_digest
    data = {
        "checkpoint": here["checkpoint"], "version": thread().version, "run": thread().current_run_id,
        "verb": "reject", "digest": digest, "call": here["call"], f"digest-{here['call']}": digest,
    }  # fmt: skip
    response = someone.post(action.format(**here), data)
    if name in ACTIONS[action]:
        assert response.status_code == (200 if action == "approval/answer/" else 302)
        assert (state() != before) is ("retry" not in action)  # which a thread that waits refuses
    else:
        shown = {200} if action == "approval/answer/" else set()  # it says that it is not theirs
        left_out = {302} if name in ("nobody", "customer", "bare") else set()
        assert response.status_code in shown | left_out | {403, 404}
        assert state() == before
        assert not Event.objects.filter(type="staff_action").exists()


@pytest.mark.parametrize("name", PEOPLE)
def test_f61_the_actions_of_the_list_are_offered_to_those_who_answer(transactional_db: None, name: str) -> None:
    here, someone = rows(), person(name)
    data = {"action": "approve_selected", "_selected_action": [str(here["call"])]}
    response = someone.post("approval/", data)
    page = response.content.decode() if response.status_code == 200 else ""
    assert ("Approve these calls?" in page) is (name in DECIDERS)
    assert state()[1] == 0


@pytest.mark.parametrize("name", PEOPLE)
def test_f61_pages_offer_what_their_reader_may_do(transactional_db: None, name: str) -> None:
    here, someone = rows(), person(name)
    for page, form, allowed in (
        ("thread/{thread}/change/", 'data-action="cancel"', OPERATORS),
        ("thread/{thread}/change/", 'data-action="retry"', OPERATORS),
        ("thread/{thread}/change/", "/delete/", OPERATORS),
        ("thread/{thread}/branches/", "/rewind/", OPERATORS),
        ("approval/{call}/change/", 'data-action="answer"', DECIDERS),
    ):
        response = someone.get(page.format(**here))
        shown = response.status_code == 200 and form in response.content.decode()
        assert shown is (name in allowed), (name, page, form)


@pytest.mark.parametrize("name", ["operator", "superuser"])
def test_f61_what_changes_something_is_no_get_and_rows_are_not_edited(transactional_db: None, name: str) -> None:
    here, someone = rows(), person(name)
    before = state()
    for action in ONLY_POST:
        assert someone.get(action.format(**here)).status_code == 405, action
    for page in NEVER:
        assert someone.get(page).status_code == 403, page
    for page in ("thread/{thread}/change/", "approval/{call}/change/"):
        assert someone.post(page.format(**here), {"status": "idle"}).status_code == 405
    for page, row in (("approval/", here["call"]), ("thread/", here["thread"])):
        assert someone.post(page, {"action": "delete_selected", "_selected_action": [row]}).status_code in (200, 302)
    assert state() == before


def test_f61_actions_need_the_token_of_the_form(transactional_db: None) -> None:
    from django.test import Client

    here, someone = rows(), person("superuser")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(someone.user)
    before = state()
    for action in ACTIONS:
        assert strict.post(f"/admin/criogen_threads/{action.format(**here)}").status_code == 403
    assert state() == before


def test_who_may_not_read_the_conversation_sees_the_call_only(transactional_db: None) -> None:
    here, someone = rows(), person("decider")
    page = someone.text(f"approval/{here['call']}/change/")
    assert "A-1" in page
    assert "I want my money back" not in page
    assert "may not read the conversation" in page
