"""``manage.py seed_desk``: orders to try the support desk with."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from project.desk.demo import seed


class Command(BaseCommand):
    help = "Adds the orders of the demo that are not there yet."

    def handle(self, *_args: Any, **_options: Any) -> None:
        added = seed()
        self.stdout.write(f"{added} orders added." if added else "The orders of the demo are there already.")
