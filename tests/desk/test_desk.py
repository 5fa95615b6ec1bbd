"""The tools of the support desk, and its orders."""

from __future__ import annotations

import json
from decimal import Decimal
from io import StringIO
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.urls import reverse

from criogen_threads.agents import ToolContext, ToolError, get_agent
from criogen_threads.backends.scripted import ScriptedModel
from project.desk.agents import model
from project.desk.demo import ORDERS, seed
from project.desk.models import CallBack, Order

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

CONTEXT = ToolContext(
    thread="user-42", thread_id=uuid4(), run_id=uuid4(), agent="desk", actor=None, locale="", state={}
)


def call(name: str, **arguments: str) -> object:
    """Run a tool of the desk the way the engine does: validate, then invoke."""
    tool = get_agent("desk").tools[name]
    return tool.invoke(CONTEXT, tool.validate(arguments))


@pytest.fixture(autouse=True)
def orders() -> None:
    seed()


def test_the_desk_is_registered_with_the_script_as_its_model() -> None:
    desk = get_agent("desk")
    assert isinstance(desk.backend, ScriptedModel)
    assert set(desk.tools) == {"look_up_order", "refund", "book_call_back"}


def test_a_model_that_the_settings_name(settings: SettingsWrapper) -> None:
    settings.DESK_MODEL = "openai:gpt-5-mini"
    assert model() == "openai:gpt-5-mini"


def test_what_the_tools_are_allowed_to_do() -> None:
    tools = get_agent("desk").tools
    assert [tools[name].read_only for name in ("look_up_order", "refund", "book_call_back")] == [
        True,
        False,
        False,
    ]
    assert [tools[name].atomic for name in ("look_up_order", "refund", "book_call_back")] == [
        False,
        True,
        True,
    ]
    amount = tools["refund"].validate({"order": "A-1001", "amount": "5"})
    assert tools["refund"].needs_approval(CONTEXT, amount) == "staff"
    assert not tools["look_up_order"].needs_approval(CONTEXT, {"order": "A-1001"})


def test_look_up_order() -> None:
    answer = call("look_up_order", order=" a-1001 ")
    assert answer == {
        "order": "A-1001",
        "item": "kettle",
        "status": "shipped",
        "total": "39.90",
        "refunded": "0.00",
        "refundable": "39.90",
    }
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.parametrize("name", ["look_up_order", "refund", "book_call_back"])
def test_an_order_that_does_not_exist(name: str) -> None:
    more = {"refund": {"amount": "1"}, "book_call_back": {"phone": "1", "when": "now"}}.get(name, {})
    with pytest.raises(ToolError, match="no order A-9999"):
        call(name, order="A-9999", **more)


def test_refund_in_two_parts() -> None:
    assert call("refund", order="A-1001", amount="10.50") == "10.50 euros of order A-1001 were refunded."
    call("refund", order="A-1001", amount="29.40")
    assert Order.objects.get(number="A-1001").refunded == Decimal("39.90")


@pytest.mark.parametrize("amount", ["39.91", "0", "-1", "0.001"])
def test_a_refund_that_is_not_possible(amount: str) -> None:
    with pytest.raises(ToolError):
        call("refund", order="A-1001", amount=amount)
    assert Order.objects.get(number="A-1001").refunded == 0


def test_the_database_refuses_to_refund_more_than_was_paid() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Order.objects.filter(number="A-1001").update(refunded=40)


def test_book_call_back() -> None:
    said = call("book_call_back", phone="+49 30 123456", when="tomorrow at 10", order="A-1002")
    booked = CallBack.objects.get()
    assert said == "A call to +49 30 123456 is booked: tomorrow at 10."
    assert (booked.order and booked.order.number, booked.note) == ("A-1002", "From thread user-42")


def test_book_call_back_without_an_order() -> None:
    call("book_call_back", phone="0170 1", when="today", note="about a gift")
    assert (CallBack.objects.get().order, CallBack.objects.get().note) == (None, "about a gift")


def test_seeding_twice_adds_nothing_and_changes_nothing() -> None:
    Order.objects.filter(number="A-1001").update(refunded=5)
    out = StringIO()
    call_command("seed_desk", stdout=out)
    assert "there already" in out.getvalue()
    assert Order.objects.count() == len(ORDERS)
    assert Order.objects.get(number="A-1001").refunded == 5


def test_seeding_an_empty_database() -> None:
    Order.objects.all().delete()
    out = StringIO()
    call_command("seed_desk", stdout=out)
    assert out.getvalue() == f"{len(ORDERS)} orders added.\n"


def test_the_admin_of_the_site_bears_its_name(client: Client) -> None:
    page = client.get(reverse("admin:login"))
    assert "Support desk</a>" in page.text
    assert "admin/base_site.html" in [template.name for template in page.templates]


def test_the_admin_lists_orders_and_call_backs(admin_client: Client) -> None:
    call("book_call_back", phone="0170 1", when="today", order="A-1001")
    assert "kettle" in admin_client.get(reverse("admin:desk_order_changelist")).text
    assert "0170 1" in admin_client.get(reverse("admin:desk_callback_changelist")).text
