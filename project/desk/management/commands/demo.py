"""``manage.py demo``: the whole site on this machine, with something in it to look at."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from project.desk import demo
from project.desk.talk import people

if TYPE_CHECKING:
    from argparse import ArgumentParser

HOST = "127.0.0.1"
PORT = 8000
OTHER_NAME = "localhost"
"""The same machine to everybody but a browser, which keeps other cookies for it."""


class Command(BaseCommand):
    help = "Starts the site under daphne, with two users and some conversations, and prints where it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=PORT, help=f"Where to listen on {HOST}. Default: {PORT}.")

    def handle(self, *_args: Any, port: int, **_options: Any) -> None:
        if not settings.DEBUG:
            raise CommandError(_("The demo is for trying things out: it runs with DEBUG=1 only."))
        _refuse_taken(port)
        settings.CRIOGEN_THREADS = {**demo.LEASE, **settings.CRIOGEN_THREADS}
        self.stdout.write(_("One moment: the database, the orders and some conversations…"))
        with suppress(KeyboardInterrupt):  # daphne has its own way with it, once it runs
            demo.prepare()
            demo.converse()
            passwords = people.with_new_passwords()
            self._serve(port, lambda: self._say_where(port, passwords))
        self.stdout.write(_("Stopped."))

    def _say_where(self, port: int, passwords: dict[str, str]) -> None:
        address = f"http://{HOST}:{port}/"
        visitor, staff = (f"{name} / {password}" for name, password in passwords.items())
        self.stdout.write("")
        self.stdout.write(_("  The support desk is at  %(address)s") % {"address": self.style.SUCCESS(address)})
        self.stdout.write(_("  A visitor               %(who)s") % {"who": visitor})
        self.stdout.write(_("  The staff               %(who)s") % {"who": staff})
        self.stdout.write("")
        self.stdout.write(
            _(
                "  Ask for a refund without signing in, and approve it as the staff: in a private window, or at\n"
                "  http://%(name)s:%(port)d/sign-in/, to which the browser shows other cookies. Ctrl-C stops it."
            )
            % {"name": OTHER_NAME, "port": port}
        )
        self.stdout.write("")
        self.stdout.flush()

    @staticmethod
    def _serve(port: int, ready: Any) -> None:
        """Until Ctrl-C. The turns that are under way then get their moment to finish, at the end of the process."""
        from daphne.server import Server
        from twisted.internet import reactor  # the one that daphne has chosen

        from project.asgi import application

        logging.getLogger("django.request").setLevel(logging.ERROR)  # what is not there is no news here
        endpoint = f"tcp:port={port}:interface={HOST}"
        pages: Any = application  # what the stubs of Django do not know, its handler takes
        loop: Any = reactor
        Server(
            ASGIStaticFilesHandler(pages), endpoints=[endpoint], application_close_timeout=1,
            ready_callable=lambda: loop.callLater(0, ready),  # a Ctrl-C while the loop starts would be swallowed
        ).run()  # fmt: skip


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise CommandError(
                _("Port %(port)d cannot be used (%(error)s). Choose another one with --port.")
                % {"port": port, "error": error}
            ) from error
