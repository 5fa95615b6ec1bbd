"""The demo as a child process, and what it prints."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from tests.processes import ROOT
from tests.project.terminal import PATIENCE, environment
from tests.streaming.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self


class Demo:
    """``manage.py demo`` on a SQLite file, until the block ends."""

    def __init__(self, database: Path, **extra: str) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--port", str(self.port)], cwd=ROOT, text=True,
            env=environment(database, **extra), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C" in line:
                self._started.set()
        self._started.set()

    def __enter__(self) -> Self:
        if not self._started.wait(PATIENCE) or self.process.poll() is not None:
            self.kill()
            raise AssertionError(f"the demo does not start:\n{self.said}")
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def stop(self) -> int:
        """What Ctrl-C does; the exit code."""
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._close()
        return code

    def _close(self) -> None:
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        """What ``kill -9`` does."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._close()

    @property
    def passwords(self) -> dict[str, str]:
        return dict(re.findall(r"(demo-\w+) / (\w+)", self.said))
