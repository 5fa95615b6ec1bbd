"""The queue, one approval, and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models.functions import Now

from criogen_threads.agents import unregister
from criogen_threads.models import Event, Run, ToolCall
from tests.console.support import Staff, a_waiting_thread, completed, customer, ran

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    ran.clear()
    yield
    ran.clear()


def test_c7_the_queue_shows_what_waits_oldest_first(call: ToolCall, approver: Staff) -> None:
    a_waiting_thread("two", order="B-2")
    page = approver.text("approval/")
    assert page.index("A-1") < page.index("B-2")
    for shown in ("refund", "ann", "one", "clerk", "order", "amount", "expires in", "<svg"):
        assert shown in page


def test_c7_the_index_says_how_many_wait(call: ToolCall, approver: Staff) -> None:
    assert "1 approval waits for you" in approver.text("/admin/")
    assert "1 approval waits for you" in approver.text("/admin/criogen_threads/")
    approver.answer(call)
    assert "No approval waits for you" in approver.text("/admin/")


@pytest.mark.parametrize(
    ("query", "found"),
    [("", True), ("tool=refund", True), ("tool=other", False), ("agent=clerk", True), ("agent=x", False),
     ("age=hour", False), ("status=approved", False), ("status=all", True), ("by=me", False)],
)  # fmt: skip
def test_c7_the_queue_is_filtered(call: ToolCall, approver: Staff, query: str, found: bool) -> None:
    assert (f"approval/{call.pk}/change/" in approver.text(f"approval/?{query}")) is found


def test_c7_one_approval_shows_everything_that_is_needed_to_decide(approver: Staff) -> None:
    long = "x" * 30_000
    call = a_waiting_thread(note=f"{long}\u202eevil\u200b<b>", card="4111")
    page = approver.text(f"approval/{call.pk}/change/")
    assert "I want my money back" in page
    assert "Give money back to the customer." in page
    assert long in page
    assert '<span class="criogen-mark" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>evil' in page
    assert "U+200B</span>&lt;b&gt;" in page
    assert "4111" not in page
    assert "[hidden]" in page
    assert call.arguments_digest in page


def test_c7_approve_lets_the_run_go_on_and_says_who(call: ToolCall, approver: Staff) -> None:
    response = approver.answer(call)
    assert "Approved. The run goes on." in response.content.decode()
    completed()
    assert ran == [("A-1", 5, "", "", False)]
    assert "approved by approver" in approver.text(f"approval/{call.pk}/change/")
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, entry.change_message) == (approver.user, str(call.pk), "approved")
    assert f"approval/{call.pk}/change/" in approver.text("approval/?by=me&status=approved")


def test_f23_a_rejected_tool_does_not_run_and_the_model_hears_why(call: ToolCall, approver: Staff) -> None:
    approver.answer(call, "reject", reason="not <b>this</b> one")
    completed()
    assert ran == []
    row = ToolCall.objects.get(pk=call.pk)
    assert (row.status, row.reason, row.decided_by) == ("rejected", "not <b>this</b> one", approver.user)
    assert "not &lt;b&gt;this&lt;/b&gt; one" in approver.text(f"approval/{call.pk}/change/")


def edit(**values: Any) -> dict[str, Any]:
    """What the form posts: every field, the edited ones with other values."""
    given = {"order": "A-1", "amount": "5", "note": "", "urgent": "", **values}
    return {"edit": "1", **{f"argument-{name}": value for name, value in given.items()}}


def test_c7_edited_arguments_are_shown_as_a_difference_before_and_after(approver: Staff) -> None:
    call = a_waiting_thread(card="4111")
    review = approver.answer(call, follow=False, **edit(amount="3"))
    assert review.status_code == 200
    page = review.content.decode()
    assert "<del>5</del>" in page
    assert "<ins>3</ins>" in page
    assert ToolCall.objects.get(pk=call.pk).status == "awaiting_approval"
    approver.answer(call, confirmed="1", **edit(amount="3"))
    completed()
    assert ran == [("A-1", 3, "", "4111", False)]  # the secret is kept, though nobody saw it
    row = ToolCall.objects.get(pk=call.pk)
    assert (row.arguments["amount"], row.edited_arguments["amount"]) == (5, 3)
    after = approver.text(f"approval/{call.pk}/change/")
    assert "<del>5</del>" in after
    assert "<ins>3</ins>" in after
    assert "4111" not in after
    story = approver.text(f"thread/{call.thread_id}/change/")
    assert "<ins>3</ins>" in story
    assert "4111" not in story


def test_an_untouched_form_edits_nothing(approver: Staff) -> None:
    call = a_waiting_thread(note="line\nline", urgent=True)
    approver.answer(call, **edit(note="line\r\nline", urgent="true"))
    completed()
    assert ToolCall.objects.get(pk=call.pk).edited_arguments is None
    assert ran == [("A-1", 5, "line\nline", "", True)]


@pytest.mark.parametrize(("field", "value"), [("amount", "many"), ("amount", '"5"'), ("amount", ""), ("urgent", "x")])
def test_edited_arguments_that_do_not_fit_are_said_in_the_form(
    call: ToolCall, approver: Staff, field: str, value: str
) -> None:
    response = approver.answer(call, follow=False, **edit(**{field: value}))
    assert response.status_code == 422
    assert "errorlist" in response.content.decode()
    assert ToolCall.objects.get(pk=call.pk).status == "awaiting_approval"


def test_f30_an_answer_is_bound_to_the_arguments_that_were_shown(call: ToolCall, approver: Staff) -> None:
    for digest in ("", "0" * 64):
        response = approver.answer(call, digest=digest)
        assert "not those that were shown" in response.content.decode()
    assert ToolCall.objects.get(pk=call.pk).status == "awaiting_approval"
    assert not LogEntry.objects.exists()


def test_f28_the_second_of_two_is_told_who_and_when(call: ToolCall, approver: Staff, boss: Staff) -> None:
    approver.answer(call)
    late = boss.answer(call, "reject")
    assert "pprover has already answered this:" in late.content.decode()
    assert "somebody else" not in late.content.decode()
    again = approver.answer(call)  # a double click
    assert "Approved." in again.content.decode()
    assert Event.objects.filter(type="approval_decided").count() == 1


def test_f57_an_answered_approval_cannot_be_answered_from_its_page(call: ToolCall, approver: Staff) -> None:
    assert 'name="verb"' in approver.text(f"approval/{call.pk}/change/")
    approver.answer(call)
    assert 'name="verb"' not in approver.text(f"approval/{call.pk}/change/")


def test_four_eyes_who_asked_does_not_answer(transactional_db: None) -> None:
    both = Staff("ann", "decide_toolcall", "view_transcript")
    call = a_waiting_thread()
    page = both.text(f"approval/{call.pk}/change/")
    assert "somebody else has to answer it" in page
    assert 'name="verb"' not in page
    assert both.answer(call).status_code == 403
    assert "No approval waits for you" in both.text("/admin/")


def test_an_expired_approval_says_so(call: ToolCall, approver: Staff) -> None:
    ToolCall.objects.update(expires_at=Now())
    assert "expired" in approver.text("approval/")
    approver.answer(call)
    assert ToolCall.objects.get(pk=call.pk).status == "expired"
    assert ran == []


def test_a_call_whose_tool_is_gone_can_be_rejected_only(call: ToolCall, approver: Staff) -> None:
    unregister("clerk")
    page = approver.text(f"approval/{call.pk}/change/")
    assert 'value="reject"' in page
    assert 'value="approve"' not in page
    assert "A-1" not in page
    assert approver.answer(call).status_code == 403


def test_f27_f25_an_unknown_or_foreign_call_is_not_there(approver: Staff) -> None:
    lookup = None
    a_waiting_thread()
    lookup = ToolCall.objects.get(name="look_up")  # it never needed an approval
    for pk in (lookup.pk, "0198c5a0-0000-7000-8000-000000000000"):
        assert approver.get(f"approval/{pk}/change/").status_code == 404
        assert approver.post(f"approval/{pk}/answer/", {"verb": "approve"}).status_code == 404
    assert customer().username == "ann"


def test_the_event_of_an_answer_names_who_answered(call: ToolCall, approver: Staff) -> None:
    approver.answer(call, "reject", reason="no")
    completed()
    event = Event.objects.get(type="approval_decided")
    assert event.details == {"approved": False, "decided_by": str(approver.user.pk)}
    page = approver.text(f"thread/{call.thread_id}/events/")
    assert '<bdi class="criogen-brief">refund approver</bdi>' in page


def test_b17_who_asked_is_the_whole_chain_of_runs(call: ToolCall, approver: Staff) -> None:
    above = Run.objects.create(thread=call.thread, number=7, agent="front", actor=customer(), status="completed")
    Run.objects.filter(pk=call.run_id).update(parent_run=above, actor=None)
    page = approver.text(f"approval/{call.pk}/change/")
    chain = page.partition('class="criogen-chain"')[2].partition("</ol>")[0]
    names = [part.partition("</bdi>")[0] for part in chain.split("<bdi>")[1:]]
    assert names == ["ann", "front", "front", "clerk"]
    assert "I want my money back" in chain


def test_the_fragment_of_an_approval_changes_when_it_is_answered_and_has_no_form(
    call: ToolCall, approver: Staff, viewer: Staff
) -> None:
    first = viewer.get(f"approval/{call.pk}/live/")
    again = viewer.get(f"approval/{call.pk}/live/", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert 'data-actions=""' in first.content.decode()
    assert 'data-actions="answer"' in approver.text(f"approval/{call.pk}/live/")
    approver.answer(call)
    completed()
    page = viewer.get(f"approval/{call.pk}/live/", headers={"If-None-Match": first["ETag"]}).content.decode()
    for shown in ("approved by approver", "All done.", 'data-actions=""'):
        assert shown in page
    assert "<form" not in page
