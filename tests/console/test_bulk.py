"""Answering several approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.models import ToolCall
from tests.console.support import Staff, a_waiting_thread, completed, ran

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    ran.clear()
    yield
    ran.clear()


def select(person: Staff, action: str, *calls: ToolCall) -> Any:
    """Choose an action of the list."""
    return person.post("approval/", {"action": action, "_selected_action": [str(call.pk) for call in calls]})


def confirmed(person: Staff, verb: str, *calls: ToolCall, **data: str) -> str:
    digests = {f"digest-{call.pk}": call.arguments_digest for call in calls}
    given = {"verb": verb, "call": [str(call.pk) for call in calls], **digests, **data}
    response = person.post("approval/answer/", given)
    assert response.status_code == 200
    return str(response.content.decode())


@pytest.fixture
def calls(transactional_db: None) -> list[ToolCall]:
    return [a_waiting_thread("one", order="A-1"), a_waiting_thread("two", order="B-2", note="n" * 500)]


def test_c7_a_page_lists_each_call_in_full_before_anything_is_done(calls: list[ToolCall], approver: Staff) -> None:
    page = select(approver, "approve_selected", *calls).content.decode()
    for shown in ("A-1", "B-2", "n" * 500, *(call.arguments_digest for call in calls)):
        assert shown in page
    assert ToolCall.objects.awaiting_approval().count() == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(("verb", "effects"), [("approve", 2), ("reject", 0)])
def test_c7_each_outcome_is_reported(calls: list[ToolCall], approver: Staff, verb: str, effects: int) -> None:
    report = confirmed(approver, verb, *calls, reason="so")
    assert report.count("approved" if verb == "approve" else "rejected") >= 2
    completed("one")
    completed("two")
    assert len(ran) == effects
    assert set(ToolCall.objects.exclude(approver="").values_list("decided_by", flat=True)) == {approver.user.pk}


def test_f28_one_that_was_answered_meanwhile_does_not_stop_the_others(
    calls: list[ToolCall], approver: Staff, boss: Staff
) -> None:
    boss.answer(calls[0], "reject")
    report = confirmed(approver, "approve", *calls)
    assert "boss has already answered this" in report
    completed("two")
    assert [each[0] for each in ran] == ["B-2"]


def test_f30_each_answer_is_bound_to_its_digest(calls: list[ToolCall], approver: Staff) -> None:
    report = confirmed(approver, "approve", *calls, **{f"digest-{calls[0].pk}": "0" * 64})
    assert "not those that were shown" in report
    assert ToolCall.objects.get(pk=calls[0].pk).status == "awaiting_approval"


def test_four_eyes_in_bulk_too(transactional_db: None) -> None:
    ann = Staff("ann", "decide_toolcall", "view_transcript")
    call = a_waiting_thread()
    assert "not yours to answer" in select(ann, "approve_selected", call).content.decode()
    assert "not yours to answer" in confirmed(ann, "approve", call)
    assert ToolCall.objects.get(pk=call.pk).status == "awaiting_approval"


def test_f61_view_only_staff_have_no_actions(calls: list[ToolCall], viewer: Staff) -> None:
    assert "approve_selected" not in viewer.text("approval/")
    select(viewer, "approve_selected", *calls)
    assert "not yours to answer" in confirmed(viewer, "approve", *calls)
    assert ToolCall.objects.awaiting_approval().count() == 2  # type: ignore[attr-defined]
