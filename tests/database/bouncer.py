"""A PgBouncer that gives a connection away after each transaction, where the machine has one."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.services import PostgreSQL, Server

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = shutil.which("pgbouncer")
CONFIGURATION = """
[databases]
postgres = host={server} user=postgres

[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
pidfile = {folder}/pid
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
query_wait_timeout = 30
server_login_retry = 0.5
"""
PORT = 6432


class PgBouncer(Server):
    """In front of a server, with so few connections to it that every client is moved from one to another."""

    pid_file = "pid"
    end_signal = signal.SIGKILL  # the gentler ones wait for its clients, each version in its own way

    def __init__(self, server: PostgreSQL, connections: int = 2) -> None:
        super().__init__()
        self.account = server.account
        if self.account:
            shutil.chown(self.folder, self.account["user"], self.account["group"])
        text = CONFIGURATION.format(server=server.folder, folder=self.folder, port=PORT, connections=connections)
        self._configuration.write_text(text)

    @property
    def url(self) -> str:
        return f"postgres://postgres@{quote(str(self.folder), safe='')}:{PORT}/postgres"

    def start(self) -> None:
        if not self.running:
            assert PROGRAM
            self._launch([PROGRAM, self._configuration], **self.account)

    @property
    def _configuration(self) -> Path:
        return self.folder / "pgbouncer.ini"

    def _ready(self) -> bool:
        return (self.folder / f".s.PGSQL.{PORT}").exists()
