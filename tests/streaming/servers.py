"""Web processes: a real daphne on the test database, and clients' sessions on it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

from tests.processes import ROOT, child_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAST = {
    "LEASE_SECONDS": 3, "HEARTBEAT_SECONDS": 1, "MODEL_BACKOFF": 0.01, "GRACE_SECONDS": 1,
    "SOCKET_SECONDS": 600,  # a client that a busy test has not read for a minute is not gone
}  # fmt: skip
PATIENCE = 30


class Web:
    """One web process; it ends with ``stop`` or ``kill``. ``project`` has its ``settings`` and its ``site``."""

    def __init__(
        self,
        folder: Path,
        layer: str = "",
        loss: float = 0.0,
        server: str = "daphne",
        project: str = "tests.streaming",
        database: str = "",
        **options: Any,
    ) -> None:
        self.port = free_port()
        self.log = folder / f"{server}-{self.port}.log"
        env = {
            "DJANGO_SETTINGS_MODULE": f"{project}.settings",
            "CRIOGEN_TEST_SETTINGS": json.dumps({**FAST, **options}),
            "CRIOGEN_TEST_LOSS": str(loss),
            "PYTHONFAULTHANDLER": "1",  # whoever hangs says where
            **({"CRIOGEN_TEST_LAYER": layer} if layer else {}),
            **({"DATABASE_URL": database, "CRIOGEN_TEST_POOL_SECONDS": "1"} if database else {}),
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *COMMANDS[server](self.port, f"{project}.site:application")],
                env=child_environment(**env), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def ready(self) -> Web:
        """Wait until it answers."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("It does not start:\n" + self.log.read_text()[-3000:])
            time.sleep(0.02)

    def url(self, path: str, scheme: str = "ws") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGABRT)
                self.process.wait(PATIENCE)
                raise AssertionError(f"It does not stop:\n{self.log.read_text()[-5000:]}") from None


COMMANDS = {
    "daphne": lambda port, site: [
        "daphne", "-b", "127.0.0.1", "-p", str(port), "--application-close-timeout", "2", site,
    ],
    "uvicorn": lambda port, site: ["uvicorn", "--port", str(port), site],
    "gunicorn": lambda port, site: [
        "gunicorn", "-b", f"127.0.0.1:{port}", "-k", "gthread", "--threads", "8",
        site.replace(":application", ":wsgi"),
    ],
}  # fmt: skip


@contextmanager
def web(folder: Path, count: int = 1, **options: Any) -> Iterator[list[Web]]:
    """Some web processes, started side by side."""
    processes = [Web(folder, **options) for _ in range(count)]
    try:
        yield [process.ready() for process in processes]
    finally:
        for process in processes:
            process.process.send_signal(signal.SIGTERM)
        for process in processes:
            process.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def log_in(user: Any) -> str:
    """A session of this user; its key is the cookie's value."""
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return str(store.session_key)


def cookie(session: str) -> dict[str, str]:
    return {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}"}
