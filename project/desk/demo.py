"""Orders and conversations to try the support desk with."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import gettext as _

from criogen_threads.agents import Agent, get_agent
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Thread
from criogen_threads.threads import ThreadHandle
from project.desk.models import Order
from project.desk.reception import an_agency
from project.desk.script import respond
from project.desk.talk import people

if TYPE_CHECKING:
    from collections.abc import Sequence

# Whoever starts again after a crash waits until the process that died counts as dead: here not half a minute.
LEASE = {"LEASE_SECONDS": 5, "HEARTBEAT_SECONDS": 1}

ORDERS = [
    ("A-1001", "Ada Lovelace", "kettle", "39.90", "0.00", Order.Status.SHIPPED),
    ("A-1002", "Ada Lovelace", "desk lamp", "64.00", "0.00", Order.Status.DELIVERED),
    ("A-1003", "Grace Hopper", "set of notebooks", "18.50", "0.00", Order.Status.PLACED),
    ("A-1004", "Alan Turing", "chess clock", "89.00", "89.00", Order.Status.CANCELLED),
]

CONVERSATIONS: list[tuple[str, str, Sequence[str]]] = [
    ("demo-kettle", "desk", ["Hello, my name is Ada.", "Where is order A-1001?"]),
    ("demo-lamp", "desk", ["I want a refund of 10 euros for A-1002: the shade has a dent.", "yes", "Thank you!"]),
    ("demo-call", "desk", ["Please call me back on +49 30 1234567 tomorrow at 9 am, about A-1004."]),
    ("demo-trip", "reception", ["Where is order A-1001, and when is there a train from Berlin to Hamburg?"]),
    ("demo-both", "reception", ["I want a refund of 5 euros for A-1002, and is there a train from Munich to Berlin?"]),
    ("demo-notebooks", "desk", ["Please refund A-1003, I do not need the notebooks any more."]),
]
"""Keys, who answers, and what the visitor says; "yes" is the staff's answer to the approval that waits. The last two
wait on, one of them in the conversation of a specialist."""


def prepare() -> None:
    """Tables and orders. A database that other people use is not changed in passing."""
    if connection.vendor == "sqlite":
        call_command("migrate", verbosity=0, interactive=False)
    else:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            raise CommandError(_("This database is not migrated: run manage.py migrate first."))
    seed()


def seed() -> int:
    """Make sure that the orders of the demo are there; those that are stay as they are.

    Returns:
        How many were added.
    """
    return sum(
        Order.objects.get_or_create(
            number=number,
            defaults={
                "customer": customer,
                "item": item,
                "total": Decimal(total),
                "refunded": Decimal(refunded),
                "status": status,
            },
        )[1]
        for number, customer, item, total, refunded, status in ORDERS
    )


def converse() -> int:
    """Have the conversations of the demo, where they are not there yet: offline, whatever the desk's model is.

    Returns:
        How many were had.
    """
    there = set(Thread.objects.filter(key__in=[key for key, *_ in CONVERSATIONS]).values_list("key", flat=True))
    desk = get_agent("desk")
    offline = {
        "desk": Agent(desk.name, model=ScriptedModel(respond), tools=list(desk.tools.values())),
        "reception": an_agency(ScriptedModel).entry,
    }
    missing = [each for each in CONVERSATIONS if each[0] not in there]
    delay, settings.DESK_DELAY = settings.DESK_DELAY, 0.0  # which is for those who look on
    try:
        for key, agent, lines in missing:
            _talk(ThreadHandle(key, agent=offline[agent], actor=people.visitor()), lines)
    finally:
        settings.DESK_DELAY = delay
    return len(missing)


def _talk(visitor: ThreadHandle, lines: Sequence[str]) -> None:
    for line in lines:
        if line == "yes":
            ThreadHandle(visitor.id, agent=visitor.agent, actor=people.staff()).approve_sync()
        else:
            visitor.send_sync(line)
