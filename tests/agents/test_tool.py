"""A tool: its options, its approval, its call."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import FrozenInstanceError
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import Tool, ToolContext, ToolError, tool
from tests.agents.contexts import a_context


def refund(context: ToolContext, order: str, amount: Decimal = Decimal(1)) -> str:
    """Refund an order."""
    return f"{order}: {amount} ({context.idempotency_key})"


async def wait_for(order: str) -> str:
    if order == "0":
        raise ToolError("There is no order 0.")
    return f"{order} arrived"


def test_a_plain_tool_has_the_documented_defaults():
    made = tool(refund)
    assert (made.name, made.description, made.is_async) == ("refund", "Refund an order.", False)
    assert (made.approval, made.atomic, made.on_crash, made.timeout) == (None, False, "rerun", None)
    assert (made.retries, made.expires_in, made.read_only) == (0, None, False)
    assert (made.visible, made.secrets) == ("all", ())


def test_every_option_is_kept():
    made = tool(
        name="pay-back", description="Pay.", approval="owner", on_crash="report",
        timeout=timedelta(minutes=1), retries=2, expires_in=90, read_only=True,
        visible="staff", secrets=["order"],
    )(refund)  # fmt: skip
    assert (made.name, made.description, made.approval, made.on_crash) == (
        "pay-back",
        "Pay.",
        "owner",
        "report",
    )
    assert (made.timeout, made.retries, made.expires_in, made.read_only) == (60.0, 2, 90.0, True)
    assert (made.visible, made.secrets) == ("staff", ("order",))


@pytest.mark.parametrize(
    ("options", "on_crash"),
    [
        ({}, "rerun"),
        ({"approval": "staff"}, "ask"),
        ({"approval": lambda context, **arguments: None}, "ask"),
        ({"approval": "staff", "on_crash": "rerun"}, "rerun"),
        ({"atomic": True}, "rerun"),
        ({"atomic": True, "approval": "staff"}, "rerun"),
    ],
)
def test_a_crashed_call_is_asked_about_where_the_tool_needs_approval(options, on_crash):
    assert Tool(refund, **options).on_crash == on_crash


def test_it_cannot_be_changed():
    made = tool(refund)
    with pytest.raises(FrozenInstanceError):
        made.approval = "staff"


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_a_name_that_every_provider_takes(name):
    assert Tool(refund, name=name).name == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a.b", "größe", "a\n", 3])
def test_other_names_are_refused(name):
    with pytest.raises(ImproperlyConfigured, match="1 to 64 letters"):
        Tool(refund, name=name)


def a_generator(order: str) -> Any:
    yield order


async def an_async_generator(order: str) -> Any:
    yield order


async def approve_async(context: ToolContext, **arguments: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (wait_for, {"atomic": True}, "atomic.*async"),
        (refund, {"atomic": True, "timeout": 3}, "atomic.*timeout"),
        (refund, {"atomic": True, "on_crash": "ask"}, "on_crash.*atomic"),
        (refund, {"expires_in": 60}, "expires_in needs an approval"),
        (refund, {"approval": "admin"}, "approval must be one of None, 'owner', 'staff'"),
        (refund, {"approval": True}, "approval must be one of"),
        (refund, {"approval": approve_async}, "must not be async"),
        (refund, {"on_crash": "retry"}, "on_crash must be one of"),
        (refund, {"visible": "owner"}, "visible must be one of"),
        (refund, {"atomic": 1}, "atomic must be one of"),
        (refund, {"read_only": None}, "read_only must be one of"),
        (refund, {"timeout": 0}, "timeout must be a number of seconds above 0"),
        (refund, {"timeout": True}, "timeout must be"),
        (refund, {"timeout": "3"}, "timeout must be"),
        (refund, {"timeout": float("nan")}, "timeout must be"),
        (refund, {"timeout": float("inf")}, "timeout must be"),
        (refund, {"approval": "staff", "expires_in": timedelta(0)}, "expires_in must be"),
        (refund, {"retries": -1}, "retries must be a whole number of at least 0"),
        (refund, {"retries": 1.5}, "retries must be"),
        (refund, {"retries": True}, "retries must be"),
        (refund, {"secrets": ["pin"]}, "secrets names 'pin'"),
        (refund, {"secrets": ["context"]}, "secrets names 'context'"),
        (refund, {"secrets": "order"}, "secrets must be a list"),
        (a_generator, {}, "cannot yield"),
        (an_async_generator, {}, "cannot yield"),
    ],
)
def test_what_means_nothing_is_refused_by_name(function, options, reason):
    with pytest.raises(ImproperlyConfigured, match=rf"Tool '{function.__name__}': .*{reason}"):
        Tool(function, **options)


def test_what_is_no_function_is_refused():
    with pytest.raises(ImproperlyConfigured, match="not of 'refund'"):
        tool("refund")


def test_an_approval_may_expire_also_when_only_a_crash_asks():
    assert Tool(refund, on_crash="ask", expires_in=60).expires_in == 60


def by_amount(context: ToolContext, order: str, amount: Decimal) -> Any:
    return {1: None, 2: False, 3: True, 4: "owner", 5: "staff"}[int(amount)]


@pytest.mark.parametrize(("amount", "approver"), [(1, ""), (2, ""), (3, "staff"), (4, "owner"), (5, "staff")])
def test_an_approval_function_decides_by_context_and_arguments(amount, approver):
    made = Tool(refund, approval=by_amount)
    arguments = made.validate({"order": "1", "amount": amount})
    assert made.needs_approval(a_context(), arguments) == approver


def test_an_approval_function_is_given_the_defaults_too():
    made = Tool(refund, approval=by_amount)
    assert made.needs_approval(a_context(), made.validate({"order": "1"})) == ""


@pytest.mark.parametrize(("approval", "approver"), [(None, ""), ("owner", "owner"), ("staff", "staff")])
def test_a_fixed_approval(approval, approver):
    assert Tool(refund, approval=approval).needs_approval(a_context(), {"order": "1"}) == approver


@pytest.mark.parametrize("answer", [0, "", "admin", 1, ["staff"]])
def test_an_approval_function_that_answers_anything_else_does_not_let_the_call_pass(answer):
    made = Tool(refund, approval=lambda context, **arguments: answer)
    with pytest.raises(TypeError, match="'refund' returned"):
        made.needs_approval(a_context(), {"order": "1"})


def test_a_sync_tool_is_invoked_with_context_and_arguments():
    made = tool(refund)
    arguments = made.validate({"order": "17", "amount": "2.50"})
    assert made.invoke(a_context(idempotency_key="k"), arguments) == "17: 2.50 (k)"
    assert arguments == {"order": "17", "amount": Decimal("2.50")}


def test_an_async_tool_is_awaited_and_its_tool_error_comes_through():
    made = Tool(functools.partial(wait_for), name="wait_for")
    assert made.is_async
    assert asyncio.run(made.ainvoke(a_context(), {"order": "1"})) == "1 arrived"
    with pytest.raises(ToolError, match="no order 0"):
        asyncio.run(made.ainvoke(a_context(), {"order": "0"}))


def test_a_decorated_function_can_still_be_called():
    assert tool(refund)(a_context(idempotency_key="k"), "1", amount=Decimal(3)) == "1: 3 (k)"
