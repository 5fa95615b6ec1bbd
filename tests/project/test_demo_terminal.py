"""``manage.py demo`` at a terminal: prompts, Ctrl-C and Ctrl-D."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.project import demo

if TYPE_CHECKING:
    from pathlib import Path


def test_a_person_asks_and_approves_at_the_prompt(database: Path) -> None:
    with demo.Terminal(database) as terminal:
        assert "A-1001" in terminal.wait_for("you: ")
        terminal.type("refund A-1003 please")
        terminal.wait_for("refund waits for an approval:")
        assert 'amount: "18.50"' in terminal.wait_for("demo-staff: ")
        terminal.type("perhaps")
        terminal.wait_for("Please answer y, or n, or n and a reason.")
        terminal.wait_for("demo-staff: ")
        terminal.type("y")
        terminal.wait_for("desk: Done. 18.50 euros of order A-1003 were refunded.")
        terminal.wait_for("you: ")
        terminal.type("/rewind 99")
        terminal.wait_for("no such checkpoint")
        terminal.wait_for("you: ")
        terminal.type("/quit")
        assert terminal.wait_for_end() == 0


def test_p9_ctrl_c_stops_the_answer_and_retry_continues_it(database: Path) -> None:
    with demo.Terminal(database, DESK_DELAY="2") as terminal:
        terminal.wait_for("you: ")
        terminal.type("Where is A-1001?")
        terminal.wait_for("· look_up_order")
        terminal.interrupt()
        terminal.wait_for("Stopped. /retry goes on with it")
        terminal.wait_for("you: ")
        terminal.type("/retry")
        terminal.wait_for("✓ look_up_order")
        terminal.wait_for("desk: Order A-1001, kettle for 39.90 euros, is shipped.")
        terminal.wait_for("you: ")
        terminal.interrupt()
        terminal.wait_for("Ctrl-D or /quit leaves.")
        terminal.wait_for("you: ")
        terminal.end_of_input()
        assert terminal.wait_for_end() == 0
        assert "Traceback" not in terminal.shown


def test_p15_a_second_start_offers_to_continue(database: Path) -> None:
    with demo.Terminal(database, DESK_DELAY="300") as terminal:
        terminal.wait_for("you: ")
        terminal.type("Where is A-1001?")
        terminal.wait_for("· look_up_order")
        terminal.process.send_signal(signal.SIGKILL)
        terminal.wait_for_end()
    with demo.Terminal(database) as terminal:
        terminal.wait_for("The last turn was cut off before its end.\nContinue it? [Y/n] ")
        terminal.type("n")
        terminal.wait_for("/retry continues it later.")
        terminal.wait_for("you: ")
        terminal.type("/retry")
        terminal.wait_for("counts as gone after a few seconds")
        terminal.wait_for("desk: Order A-1001, kettle for 39.90 euros, is shipped.")
        terminal.wait_for("you: ")
        terminal.end_of_input()
        assert terminal.wait_for_end() == 0
