"""Several agents on the page: who speaks, who is asked, and whose call waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from criogen_threads.models import ToolCall
from project.desk.demo import seed
from project.desk.models import Order
from tests.chat.support import answers, aside, eventually, person, rested, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)

BOTH = "I want a refund of 12 euros for A-1002, and is there a train from Berlin to Hamburg?"


def test_b17_an_approval_of_an_asked_agent_waits_where_people_speak(visit: Callable[..., Visitor]) -> None:
    aside(seed)
    visitor = visit()
    page = visitor.open(agent="reception")
    say(page, BOTH)
    card = page.locator(".card")
    card.get_by_text("orders, invoices and refunds asks for this.").wait_for()
    card.get_by_text("This waits for the staff").wait_for()
    rows = page.locator(".call-name")
    eventually(lambda: page.locator(".call-state").all_inner_texts() == ["waits for approval", "done"])
    assert rows.all_inner_texts() == [
        "asks orders, invoices and refunds", "asks trains, and calls back about journeys",
    ]  # fmt: skip
    visitor.open(agent="reception")  # the same after a reload
    card.get_by_text("orders, invoices and refunds asks for this.").wait_for()
    staff = visit(person(is_staff=True, is_superuser=True)).page
    call = aside(ToolCall.objects.get, name="refund", thread__owner=visitor.user)
    staff.goto(f"{visitor.address}/admin/criogen_threads/approval/{call.pk}/change/")
    staff.get_by_role("button", name="Approve", exact=True).click()
    answers(page).get_by_text("12.00 euros of order A-1002 were refunded").first.wait_for()
    card.wait_for(state="detached")
    rested(page)
    assert page.locator(".call-state").all_inner_texts() == ["done", "done"]
    assert aside(Order.objects.get, number="A-1002").refunded == 12


def test_b17_the_owner_answers_each_call_of_an_asked_agent(visit: Callable[..., Visitor]) -> None:
    """Both wait in the conversation of the travel agent; each card goes when it is answered."""
    visitor = visit()
    page = visitor.open(agent="office")
    say(page, "Go")
    buttons = page.get_by_role("button", name="Approve")
    eventually(lambda: buttons.count() == 2)
    assert page.locator(".card-agent").all_inner_texts() == ["clerk asks for this."] * 2
    buttons.first.click()
    eventually(lambda: buttons.count() == 1)
    assert aside(ToolCall.objects.filter(name="sign", status="awaiting_approval").count) == 1
    buttons.first.click()
    answers(page).get_by_text("It is signed.").wait_for()
    rested(page)
    assert page.locator(".card").count() == 0


def test_b18_a_message_says_who_speaks_after_a_hand_over(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open(agent="porter")
    say(page, "Who knows?")
    answers(page).get_by_text("I am the guide.").wait_for()
    rested(page)
    assert page.locator(".call-name").all_inner_texts() == ["hands over to The guide"]
    assert answers(page).locator(".who").all_inner_texts()[-1] == "The guide"
