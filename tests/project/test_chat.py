"""``manage.py chat``: the script, the errors, and going on after a crash."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING

from tests.processes import ROOT
from tests.project import terminal

if TYPE_CHECKING:
    from pathlib import Path

LOOKS_UP = "· look_up_order(order: A-1001)"


def test_the_chat_makes_its_database_and_says_what_can_be_asked(tmp_path: Path) -> None:
    done = terminal.script(tmp_path / "new.sqlite3", "# a remark, and a blank line", "", "Where is A-1001?")
    assert done.returncode == 0, done.stderr
    assert "A-1001  kettle" in done.stdout
    assert "/help lists the commands" in done.stdout
    assert "you: Where is A-1001?" in done.stdout
    assert "desk: Order A-1001, kettle for 39.90 euros, is shipped." in done.stdout
    assert "remark" not in done.stdout
    assert not done.stderr


def test_p23_an_approval_is_answered_at_the_prompt(database: Path) -> None:
    done = terminal.script(database, "I want a refund of 10 euros for A-1002", "y", "Where is A-1002?")
    assert done.returncode == 0, done.stderr
    before, approved, after = re.split("refund waits for an approval:|demo-staff: y", done.stdout)
    assert "refund →" not in before + approved
    assert 'order: "A-1002"' in approved
    assert 'amount: "10"' in approved
    assert "✓ refund → 10.00 euros of order A-1002 were refunded." in after
    assert "10.00 euros of it were refunded" in after


def test_f23_a_rejected_refund_does_not_happen_and_the_desk_is_told_why(database: Path) -> None:
    done = terminal.script(database, "refund 5 euros of A-1002", "n it was used", "Where is A-1002?")
    assert done.returncode == 0, done.stderr
    assert "Reason: it was used" in done.stdout
    assert "were refunded" not in done.stdout


def test_what_is_neither_yes_nor_no_leaves_the_approval_open(database: Path) -> None:
    done = terminal.script(database, "refund 5 euros of A-1002", "where is A-1001")
    assert done.returncode == 1
    assert "Please answer y, or n, or n and a reason." in done.stdout
    assert "demo-staff: y" in terminal.script(database, "y").stdout


def test_p21_an_approval_waits_for_the_next_start(database: Path) -> None:
    assert terminal.script(database, "refund A-1002 please").returncode == 0
    done = terminal.script(database, "y")
    assert done.returncode == 0, done.stderr
    assert "64.00 euros of order A-1002 were refunded." in done.stdout


def test_p34_the_commands_show_the_history_and_go_back_in_it(database: Path) -> None:
    done = terminal.script(database, "Hello", "Where is A-1001?", "/history", "/rewind 2", "/messages", "/help")
    assert done.returncode == 0, done.stderr
    history, messages = re.split("you: /rewind 2", done.stdout.partition("you: /history")[2])
    assert re.search(r"^ +3  [\d:]{8}  input +in_progress +Where is A-1001\?$", history, re.MULTILINE)
    assert re.search(r"^ +1  [\d:]{8}  input +in_progress +Hello$", history, re.MULTILINE)
    assert history.index("Where is") < history.index("Hello")
    assert "you: Hello" in messages
    assert "kettle" not in messages
    assert "/rewind N" in messages


def test_p35_going_back_behind_a_refund_is_done_by_staff_and_can_be_undone(database: Path) -> None:
    done = terminal.script(database, "refund 10 euros of A-1002", "y", "/rewind 1", "/retry", "n", "/messages")
    assert done.returncode == 0, done.stderr
    assert "demo-staff goes back, since the visitor may not" in done.stdout
    assert "were refunded" not in done.stdout.partition("you: /retry")[2]
    [left] = re.findall(r"(/rewind [0-9a-f-]{36}) undoes that", done.stdout)
    assert "✓ refund" in terminal.script(database, left, "/messages").stdout.partition("/messages")[2]


def test_a_conversation_goes_on_where_it_stopped_and_new_begins_anew(database: Path) -> None:
    terminal.script(database, "Hello")
    assert "you: Hello" in terminal.script(database, "/messages").stdout
    assert "Nothing was said yet." in terminal.script(database, "/messages", options=("--thread", "other")).stdout
    done = terminal.script(database, "/messages", options=("--new",))
    assert done.returncode == 0
    assert "Nothing was said yet." in done.stdout


def test_what_goes_wrong_is_one_line_and_ends_the_script(database: Path) -> None:
    for line, words in {
        "/rewind 99": "The thread has no such checkpoint. /history lists them.",
        "/unknown": "/unknown? /help lists what there is.",
    }.items():
        done = terminal.script(database, line, "Hello")
        assert done.returncode == 1
        assert words in done.stdout
        assert "you: Hello" not in done.stdout
        assert "Traceback" not in done.stdout + done.stderr


def test_p17_a_model_that_fails_is_told_and_the_next_start_continues(database: Path) -> None:
    done = terminal.script(database, "Hello", CRIOGEN_MODEL="openai:gpt-5-mini")
    assert done.returncode == 1
    assert "/retry asks it again." in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    done = terminal.script(database)
    assert done.returncode == 0, done.stderr
    assert "The last turn failed:" in done.stdout
    assert "desk: Hello! This is the support desk." in done.stdout


def test_a_wrong_start_is_one_line_too(database: Path, tmp_path: Path) -> None:
    missing = ("--script", str(tmp_path / "missing"))
    nowhere = tmp_path / "no" / "folder" / "db.sqlite3"
    for file, options, words in (
        (database, missing, "The script cannot be read:"),
        (nowhere, ("--new",), "unable to open database file"),
        (database, ("--new", "--thread", "a/b"), "A thread id has 1 to 200 characters"),
    ):
        done = subprocess.run(
            [*terminal.COMMAND, *options], cwd=ROOT, env=terminal.environment(file), text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=terminal.PATIENCE,
        )  # fmt: skip
        assert done.returncode != 0
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_p16_a_killed_chat_goes_on_at_its_second_start(database: Path) -> None:
    with terminal.Terminal(database, DESK_DELAY="300") as screen:
        screen.wait_for("you: ")
        screen.type("Where is A-1001?")
        screen.wait_for(LOOKS_UP)
        screen.process.send_signal(signal.SIGKILL)
        assert screen.wait_for_end() == -signal.SIGKILL
    done = terminal.script(database, "/messages")
    assert done.returncode == 0, done.stderr
    again, messages = done.stdout.split("you: /messages")
    assert "The last turn was cut off before its end." in again
    assert "desk: Order A-1001, kettle for 39.90 euros, is shipped." in again
    assert messages.count("you: Where is A-1001?") == messages.count(LOOKS_UP) == 1
