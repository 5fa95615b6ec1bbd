"""Orders to try the support desk with."""

from __future__ import annotations

from decimal import Decimal

from project.desk.models import Order

ORDERS = [
    ("A-1001", "Ada Lovelace", "kettle", "39.90", "0.00", Order.Status.SHIPPED),
    ("A-1002", "Ada Lovelace", "desk lamp", "64.00", "0.00", Order.Status.DELIVERED),
    ("A-1003", "Grace Hopper", "set of notebooks", "18.50", "0.00", Order.Status.PLACED),
    ("A-1004", "Alan Turing", "chess clock", "89.00", "89.00", Order.Status.CANCELLED),
]


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
