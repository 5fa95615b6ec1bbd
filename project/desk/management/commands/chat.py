"""``manage.py chat``: a conversation with the support desk in the terminal."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils.translation import gettext as _

from criogen_threads.agents import get_agent
from criogen_threads.errors import CriogenError
from project.desk import demo
from project.desk.talk import people
from project.desk.talk.lines import Script, typed_or_piped
from project.desk.talk.screen import Screen
from project.desk.talk.talk import Talk

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from criogen_threads.agents import Agent
    from project.desk.talk.lines import Lines


class Command(BaseCommand):
    help = "Talks with the support desk in the terminal. What is said is kept: a second start goes on with it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--script", metavar="FILE", help="Lines to say; blank ones and # are skipped.")
        parser.add_argument("--thread", metavar="KEY", default="demo", help="Which conversation. Default: demo.")
        parser.add_argument("--agent", metavar="NAME", default="desk", help="Who answers: desk or reception.")
        parser.add_argument("--new", action="store_true", help="Forget what was said in it before.")

    def handle(self, *_args: Any, **options: Any) -> None:
        settings.CRIOGEN_THREADS = {**demo.LEASE, **settings.CRIOGEN_THREADS}
        screen = Screen(self.stdout, colour=_has_colours(self.stdout, options))
        _log_in_one_line(screen, tracebacks=options["traceback"])
        with ExitStack() as stack:
            lines = _lines(options["script"], screen, stack)
            try:
                demo.prepare()
                agent = get_agent(options["agent"])
                well = _begin(agent, options["thread"], lines, screen, new=options["new"]).run()
            except (CriogenError, DatabaseError) as error:
                raise CommandError(str(error)) from error
        if not well:
            raise SystemExit(1)


def _lines(script: str | None, screen: Screen, stack: ExitStack) -> Lines:
    if script is None:
        return typed_or_piped(screen)
    try:
        return Script(stack.enter_context(Path(script).open(encoding="utf-8")), screen)
    except OSError as error:
        raise CommandError(_("The script cannot be read: %(error)s") % {"error": error}) from error


def _begin(agent: Agent, key: str, lines: Lines, screen: Screen, *, new: bool) -> Talk:
    if new:
        agent.thread(key).delete_sync()
    return Talk(agent, key, visitor=people.visitor(), staff=people.staff(), lines=lines, screen=screen)


def _has_colours(out: Any, options: dict[str, Any]) -> bool:
    wanted = options["force_color"] or (out.isatty() and not os.environ.get("NO_COLOR"))
    return bool(wanted) and not options["no_color"]


def _log_in_one_line(screen: Screen, *, tracebacks: bool) -> None:
    """What the engine logs, beside the conversation; with --traceback in full."""
    logger = logging.getLogger("criogen_threads")
    logger.handlers = [Log(screen, tracebacks=tracebacks)]
    logger.propagate = False


class Log(logging.Handler):
    """Shows warnings as quiet lines."""

    def __init__(self, screen: Screen, *, tracebacks: bool) -> None:
        super().__init__(logging.WARNING)
        self.screen = screen
        self.tracebacks = tracebacks

    def emit(self, record: logging.LogRecord) -> None:
        self.screen.quiet(self.format(record) if self.tracebacks else record.getMessage(), "!")
