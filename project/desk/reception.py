"""A reception with a billing and a travel specialist: agents that ask each other, in conversations of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from criogen_threads.agents import Agency, Agent, ToolError, register, tool
from project.desk import offline
from project.desk.agents import book_call_back, look_up_order, model, refund
from project.desk.script import respond

if TYPE_CHECKING:
    from collections.abc import Callable

    from criogen_threads.backends.base import ModelBackend
    from criogen_threads.backends.scripted import Respond

TRAINS = {
    ("berlin", "hamburg"): ["08:04", "10:04", "14:04"],
    ("hamburg", "berlin"): ["09:12", "13:12", "18:12"],
    ("berlin", "munich"): ["07:30", "11:30", "16:30"],
    ("munich", "berlin"): ["06:55", "12:55", "17:55"],
}


@tool(read_only=True)
def find_trains(origin: str, destination: str) -> dict[str, list[str]]:
    """When trains leave.

    Args:
        origin: The city that it leaves from.
        destination: The city that it goes to.
    """
    times = TRAINS.get((origin.strip().lower(), destination.strip().lower()))
    if times is None:
        raise ToolError(f"There is no train from {origin} to {destination}.")
    return {"departures": times}


def an_agency(model: Callable[[Respond], str | ModelBackend] = model) -> Agency:
    """The reception with its specialists.

    Args:
        model: The model of each, made of what it says without one.
    """
    billing = Agent(
        "reception.billing",
        description="orders, invoices and refunds",
        model=model(respond),
        instructions="You do the billing. Look an order up before you refund it; a person approves refunds.",
        tools=[look_up_order, refund],
    )
    travel = Agent(
        "reception.travel",
        description="trains, and calls back about journeys",
        model=model(offline.travel),
        instructions="You know the trains.",
        tools=[find_trains, book_call_back],
    )
    entry = Agent(
        "reception",
        description="Reception, which asks its specialists",
        model=model(offline.reception),
        instructions="Ask the specialists, both at once where a wish is for both, and tell what they found.",
    )
    return Agency(
        "reception",
        entry=entry,
        specialists=[billing, travel],
        instructions="You work for a small shop with a travel desk. Be brief and friendly.",
    )


reception = register(an_agency())
