"""``manage.py chat`` at a terminal: prompts, Ctrl-C and Ctrl-D."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.project import terminal

if TYPE_CHECKING:
    from pathlib import Path


def test_a_person_asks_and_approves_at_the_prompt(database: Path) -> None:
    with terminal.Terminal(database) as screen:
        assert "A-1001" in screen.wait_for("you: ")
        screen.type("refund A-1003 please")
        screen.wait_for("refund waits for an approval:")
        assert 'amount: "18.50"' in screen.wait_for("demo-staff: ")
        screen.type("perhaps")
        screen.wait_for("Please answer y, or n, or n and a reason.")
        screen.wait_for("demo-staff: ")
        screen.type("y")
        screen.wait_for("desk: Done. 18.50 euros of order A-1003 were refunded.")
        screen.wait_for("you: ")
        screen.type("/rewind 99")
        screen.wait_for("no such checkpoint")
        screen.wait_for("you: ")
        screen.type("/quit")
        assert screen.wait_for_end() == 0


def test_p9_ctrl_c_stops_the_answer_and_retry_continues_it(database: Path) -> None:
    with terminal.Terminal(database, DESK_DELAY="2") as screen:
        screen.wait_for("you: ")
        screen.type("Where is A-1001?")
        screen.wait_for("· look_up_order")
        screen.interrupt()
        screen.wait_for("Stopped. /retry goes on with it")
        screen.wait_for("you: ")
        screen.type("/retry")
        screen.wait_for("✓ look_up_order")
        screen.wait_for("desk: Order A-1001, kettle for 39.90 euros, is shipped.")
        screen.wait_for("you: ")
        screen.interrupt_the_prompt("Ctrl-D or /quit leaves.")
        screen.wait_for("you: ")
        screen.end_of_input()
        assert screen.wait_for_end() == 0
        assert "Traceback" not in screen.shown


def test_p15_a_second_start_offers_to_continue(database: Path) -> None:
    with terminal.Terminal(database, DESK_DELAY="300") as screen:
        screen.wait_for("you: ")
        screen.type("Where is A-1001?")
        screen.wait_for("· look_up_order")
        screen.process.send_signal(signal.SIGKILL)
        screen.wait_for_end()
    with terminal.Terminal(database) as screen:
        screen.wait_for("The last turn was cut off before its end.\nContinue it? [Y/n] ")
        screen.type("n")
        screen.wait_for("/retry continues it later.")
        screen.wait_for("you: ")
        screen.type("/retry")
        screen.wait_for("counts as gone after a few seconds")
        screen.wait_for("desk: Order A-1001, kettle for 39.90 euros, is shipped.")
        screen.wait_for("you: ")
        screen.end_of_input()
        assert screen.wait_for_end() == 0
