"""The terminal chat as a child process: fed with a script, or at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

COMMAND = [sys.executable, "manage.py", "chat"]
PROVIDERS = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"}
UNWANTED = {"SECRET_KEY", "DEBUG", "CRIOGEN_MODEL", "DESK_DELAY", *PROVIDERS}
PATIENCE = 180.0
AGAIN = 5  # seconds until somebody who was not heard presses a key again
"""Seconds until a test gives up on text that should appear."""


def environment(database: Path, **extra: str) -> dict[str, str]:
    """The site's own settings on a SQLite file, without a provider's key."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return {
        **kept, "DATABASE_URL": f"sqlite:///{database}", "DJANGO_SETTINGS_MODULE": "project.settings",
        "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "error", **extra,
    }  # fmt: skip


def script(
    database: Path, *lines: str, options: tuple[str, ...] = (), **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run the chat with a script to its end."""
    file = database.with_suffix(".script")
    file.write_text("\n".join(lines))
    return subprocess.run(
        [*COMMAND, "--script", str(file), *options], cwd=ROOT, env=environment(database, **extra), text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
    )  # fmt: skip


class Terminal:
    """The chat at a terminal of its own."""

    def __init__(self, database: Path, *options: str, **extra: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *options], cwd=ROOT, env=environment(database, TERM="dumb", NO_COLOR="1", **extra),
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in jobs of a shell
        )  # fmt: skip
        os.close(slave)
        self.shown = ""
        self._read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def type(self, line: str) -> None:
        os.write(self.master, f"{line}\n".encode())

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def interrupt_the_prompt(self, until: str) -> None:
        """Press Ctrl-C until this text appears: readline does not hear a signal that comes just before it waits."""
        deadline = time.monotonic() + PATIENCE
        while self.shown.find(until, self._read) < 0 and time.monotonic() < deadline:
            self.interrupt()
            pressed = time.monotonic()
            while self.shown.find(until, self._read) < 0 and time.monotonic() < pressed + AGAIN:
                assert self._receive(), f"the chat ended before {until!r} appeared in\n{self.shown}"
        self.wait_for(until)

    def end_of_input(self) -> None:
        """What Ctrl-D does."""
        os.write(self.master, b"\x04")

    def wait_for(self, text: str) -> str:
        """Read until this text appears; returns what came since the last call."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(text, self._read)) < 0:
            assert time.monotonic() < deadline, f"{text!r} never appeared in\n{self.shown}"
            if not self._receive():
                raise AssertionError(f"the chat ended before {text!r} appeared in\n{self.shown}")
        came, self._read = self.shown[self._read : at + len(text)], at + len(text)
        return came

    def wait_for_end(self) -> int:
        """Read to the end; returns the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._receive():
            assert time.monotonic() < deadline, f"the chat did not end after\n{self.shown}"
        return self.process.wait(PATIENCE)

    def _receive(self) -> bool:
        """Read what there is; False at the end."""
        readable, _, _ = select.select([self.master], [], [], 0.5)
        if not readable:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)
