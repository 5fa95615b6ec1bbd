"""Answers in the console to calls that came together, and what a crash after an answer leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.engine.dispatch.in_process import InProcess
from criogen_threads.models import ToolCall
from tests.console.support import Staff, clerk, completed, customer, ran
from tests.support import call as asks

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    ran.clear()
    yield
    ran.clear()


def two_calls(**same: str) -> list[ToolCall]:
    """Two refunds that one answer of the model asks for."""
    asked = [asks("refund", order=order, amount=5) for order in ("A-1", "B-2")]
    for block in asked:
        block["tool_call"].update(same)
    clerk(asked, "Done.").thread("one", actor=customer()).send_sync("both, please")
    return list(ToolCall.objects.order_by("index"))


def test_f24_f25_rejecting_one_leaves_the_other_to_run(approver: Staff) -> None:
    first, second = two_calls()
    approver.answer(first, "reject")
    assert "Answer the call of refund" in approver.text(f"thread/{first.thread_id}/change/")
    approver.answer(second)
    completed()
    assert [each[0] for each in ran] == ["B-2"]


def test_f26_calls_with_one_provider_id_are_two_approvals(approver: Staff) -> None:
    first, second = two_calls(id="same")
    assert first.call_id == second.call_id
    page = approver.text("approval/")
    assert f"approval/{first.pk}/change/" in page
    assert f"approval/{second.pk}/change/" in page
    approver.answer(second, "reject")
    approver.answer(first)
    completed()
    assert [each[0] for each in ran] == ["A-1"]
    story = approver.text(f"thread/{first.thread_id}/change/")
    one, other = (story.partition(order)[2].partition("</details>")[0] for order in ("A-1", "B-2"))
    assert "refunded 5" in one
    assert "refunded 5" not in other


def test_f31_an_answer_survives_a_crash_right_after_it(
    approver: Staff, boss: Staff, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = two_calls()

    def gone(*_: Any) -> None:
        raise OSError("no broker")

    monkeypatch.setattr(InProcess, "resume", gone)
    for call in calls:
        approver.answer(call)
    assert ran == []
    monkeypatch.undo()
    boss.post(f"thread/{calls[0].thread_id}/retry/")
    completed()
    assert sorted(each[0] for each in ran) == ["A-1", "B-2"]
