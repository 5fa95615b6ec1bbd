"""A whole conversation with the support desk, on the engine and on real rows."""

from __future__ import annotations

from decimal import Decimal

import pytest

from criogen_threads.agents import get_agent
from project.desk.demo import seed
from project.desk.models import CallBack, Order

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_refund_waits_for_the_staff_and_is_made_once() -> None:
    seed()
    chat = get_agent("desk").thread("user-42")
    assert "shipped" in chat.send_sync("Where is A-1001?").text
    asked = chat.send_sync("Please refund 12.50 of it")
    assert asked.status == "suspended"
    assert [(call["name"], call["approver"]) for call in asked.pending] == [("refund", "staff")]
    assert Order.objects.get(number="A-1001").refunded == 0
    done = chat.approve_sync()
    assert (done.status, done.text) == ("completed", "Done. 12.50 euros of order A-1001 were refunded.")
    assert Order.objects.get(number="A-1001").refunded == Decimal("12.50")


def test_a_rejected_refund_is_not_made_and_the_reason_is_told() -> None:
    seed()
    chat = get_agent("desk").thread("user-42")
    chat.send_sync("Please refund A-1002")
    assert "the lamp was used" in chat.reject_sync("the lamp was used").text
    assert Order.objects.get(number="A-1002").refunded == 0


def test_a_call_back_is_booked_over_two_turns() -> None:
    chat = get_agent("desk").thread("user-42")
    assert chat.send_sync("Please call me back tomorrow at 10").text.endswith("?")
    assert "is booked" in chat.send_sync("+49 30 123456").text
    assert [(booked.phone, booked.when) for booked in CallBack.objects.all()] == [("+49 30 123456", "tomorrow at 10")]
