"""The support desk: the agent that this site registers."""

from __future__ import annotations

import time
from decimal import Decimal  # noqa: TC003  (a tool's hints are read at runtime)
from typing import TYPE_CHECKING

from django.conf import settings

from criogen_threads.agents import Agent, ToolContext, ToolError, register, tool
from criogen_threads.backends.scripted import ScriptedModel
from project.desk.models import CallBack, Order
from project.desk.script import respond

if TYPE_CHECKING:
    from criogen_threads.backends.base import ModelBackend
    from criogen_threads.backends.scripted import Respond

INSTRUCTIONS = """\
You are the support desk of a small shop. Be brief and friendly. Look an order up before you speak of it or
refund it; its number is written like A-1001. A person of the staff approves each refund: ask for it with the
tool, do not ask the customer to. Amounts are in euros."""


@tool(read_only=True)
def look_up_order(order: str) -> dict[str, str]:
    """Look up an order: item, status, total, what was refunded and what still can be.

    Args:
        order: The number of the order, such as A-1001.
    """
    time.sleep(settings.DESK_DELAY)
    found = _order(order)
    return {
        "order": found.number,
        "item": found.item,
        "status": found.get_status_display(),
        "total": str(found.total),
        "refunded": str(found.refunded),
        "refundable": str(found.refundable),
    }


@tool(approval="staff", atomic=True)
def refund(order: str, amount: Decimal) -> str:
    """Give money back to the customer. A person of the staff approves it first.

    Args:
        order: The number of the order, such as A-1001.
        amount: How much, in euros: at most what the order still has.
    """
    found = _order(order, lock=True)
    if amount <= 0 or amount != round(amount, 2):
        raise ToolError("The amount must be positive, with at most two decimals.")
    if amount > found.refundable:
        raise ToolError(f"Order {found.number} has only {found.refundable} euros left to refund.")
    found.refunded += amount
    found.save(update_fields=["refunded"])
    return f"{amount:.2f} euros of order {found.number} were refunded."


@tool(atomic=True)
def book_call_back(context: ToolContext, phone: str, when: str, order: str = "", note: str = "") -> str:
    """Promise the customer a call.

    Args:
        phone: The number to call.
        when: The time, in the customer's words.
        order: The number of the order that it is about, if any.
        note: What it is about.
    """
    about = _order(order) if order else None
    CallBack.objects.create(order=about, phone=phone, when=when, note=note or f"From thread {context.thread}")
    return f"A call to {phone} is booked: {when}."


def _order(number: str, *, lock: bool = False) -> Order:
    orders = Order.objects.select_for_update() if lock else Order.objects.all()
    try:
        return orders.get(number=number.strip().upper())
    except Order.DoesNotExist:
        raise ToolError(f"There is no order {number}.") from None


def model(script: Respond = respond) -> str | ModelBackend:
    """The model that the settings name: a provider's, or a script of this site, which works offline."""
    name: str = settings.DESK_MODEL
    return ScriptedModel(script, delay=0.01) if name == "scripted" else name


desk = register(
    Agent(
        "desk",
        description="Support desk",
        model=model(),
        instructions=INSTRUCTIONS,
        tools=[look_up_order, refund, book_call_back],
    )
)

from project.desk import reception  # noqa: E402, F401 (the agency of this site, which uses these tools)
