"""``manage.py criogen_recover``: take up what dead processes left."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand
from django.utils.translation import gettext as _

from criogen_threads.engine.recovery import recover

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Continue interrupted and answered runs, start queued ones, apply expired approvals; once or as a loop."""

    help = "Take up what dead processes left: interrupted, answered and queued runs, and expired approvals."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--every", type=float, metavar="SECONDS", help="Go on for ever, with a pause of so many seconds."
        )

    def handle(self, *_args: Any, every: float | None, **_options: Any) -> None:
        asyncio.run(self._recover(every))

    async def _recover(self, every: float | None) -> None:
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        while not stopping.is_set():
            self.stdout.write(_("Taken up: {found}").format(found=await recover()))
            if every is None:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), every)
