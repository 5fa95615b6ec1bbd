"""Approvals on the page, and what was done already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from criogen_threads.models import ToolCall
from project.desk.demo import seed
from project.desk.models import Order
from tests.browsers import aside, settled
from tests.chat.support import answers, pays, person, questions, rested, said, say
from tests.streaming.puppet import wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)


def test_c7_c8_staff_approve_a_refund_and_the_visitor_s_page_goes_on_by_itself(visit: Callable[..., Visitor]) -> None:
    aside(seed)
    visitor, staff = visit(), visit(person(is_staff=True, is_superuser=True))
    page = visitor.open(agent="desk")
    say(page, "I would like a refund of 12 euros for order A-1002")
    card = page.locator(".card")
    card.get_by_text("This waits for the staff").wait_for()
    assert card.get_by_role("button").count() == 0
    desk = staff.page
    desk.goto(f"{staff.address}/admin/criogen_threads/approval/")
    desk.locator("#result_list a", has_text="refund").first.click()
    desk.get_by_role("button", name="Approve").click()
    answers(page).get_by_text("12.00 euros of order A-1002 were refunded").wait_for()
    card.wait_for(state="detached")
    rested(page)
    page.locator("summary", has_text="refund").click()
    page.get_by_text("12.00 euros of order A-1002 were refunded.", exact=True).first.wait_for()
    assert aside(Order.objects.get, number="A-1002").refunded == 12


def test_f57_an_answered_approval_is_not_live_again_after_a_reload(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    other = visitor.open(visitor.tab())
    say(page, pays(card="4111"))
    page.get_by_role("button", name="Approve").wait_for()
    assert "4111" not in page.locator(".card").inner_text()
    other.get_by_role("button", name="Reject").click()
    other.get_by_label("Reason").fill("too much")
    other.get_by_role("button", name="Reject").click()
    for tab in (page, other):
        answers(tab).get_by_text("It is settled.").wait_for()
        tab.locator(".card").wait_for(state="detached")
    visitor.open()
    answers(page).get_by_text("It is settled.").wait_for()
    assert page.locator(".card").count() == 0
    assert page.locator(".call-state").inner_text() == "declined"
    found = aside(ToolCall.objects.get, thread__key=visitor.key)
    assert (found.status, found.reason) == ("rejected", "too much")


def test_f28_who_answers_too_late_is_told_so(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="409 (Conflict)")
    page = visitor.open()
    say(page, pays())
    page.get_by_role("button", name="Approve").wait_for()
    page.route("**/decide/", lambda route: (aside(visitor.handle().reject_sync, "first"), route.continue_()))
    page.get_by_role("button", name="Approve").click()
    answers(page).get_by_text("It is settled.").wait_for()
    assert aside(ToolCall.objects.get, thread__key=visitor.key).status == "rejected"


def test_f30_nothing_is_unseen_in_what_is_to_be_approved(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, wish([{"tool_call": {"name": "wipe", "arguments": {"name": "pay \u202eann\u200b"}}}]))
    card = page.locator(".card")
    card.wait_for()
    assert card.locator(".unseen").all_inner_texts() == ["U+202E", "U+200B"]
    assert card.locator("dd").inner_text() == "pay U+202EannU+200B"


def test_what_was_done_is_not_taken_back_by_an_edit(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="403 (Forbidden)")
    page = visitor.open()
    say(page, pays())
    page.get_by_role("button", name="Approve").click()
    answers(page).get_by_text("It is settled.").wait_for()
    rested(page)
    questions(page).first.hover()
    page.get_by_role("button", name="Edit").click()
    say(page, "something else")
    page.get_by_text("Something was already done after that message").wait_for()
    assert said(visitor.stored())[-1] == ("assistant", "It is settled.")


def test_the_focus_goes_to_the_conversation_where_its_button_goes_away(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, pays())
    page.get_by_role("button", name="Approve").focus()
    page.keyboard.press("Enter")
    answers(page).get_by_text("It is settled.").wait_for()
    assert page.evaluate("document.querySelector('criogen-chat').shadowRoot.activeElement.className") == "scroll"


def test_the_row_of_a_call_is_current_after_the_conversation_was_read_anew(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, pays())
    page.get_by_role("button", name="Approve").wait_for()
    settled(page, "document.querySelector('criogen-chat').chat.refresh()")
    page.get_by_role("button", name="Approve").click()
    answers(page).get_by_text("It is settled.").wait_for()
    rested(page)
    page.locator("summary").click()
    page.get_by_role("heading", name="Result").wait_for()
    assert page.locator(".call[part=tool]").get_attribute("data-state") == "done"
