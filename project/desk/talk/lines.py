"""Where the lines come from: a person at a terminal, or a script."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from collections.abc import Iterable

    from project.desk.talk.screen import Screen


class Lines(ABC):
    """Gives one line after the other. ``interactive`` says whether a person can be asked a question."""

    interactive: bool

    @abstractmethod
    def read(self, prompt: str) -> str | None:
        """The next line that says something; None at the end."""

    def agrees(self, question: str) -> bool:  # noqa: ARG002 (nobody is there to read it)
        """Whether the person says yes, or just presses Enter; without a person, yes."""
        return True


class Terminal(Lines):
    """Lines that a person types, with the editing and the memory of readline where there is one."""

    interactive = True

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        with suppress(ImportError):
            import readline  # noqa: F401  (input() uses it once it is loaded)

    def read(self, prompt: str) -> str | None:
        while True:
            try:
                line = input(self.screen.prompt(prompt)).strip()
            except EOFError:
                self.screen.line()
                return None
            except KeyboardInterrupt:
                self.screen.line()
                self.screen.quiet(_("Ctrl-D or /quit leaves."))
                continue
            if line:
                return line

    def agrees(self, question: str) -> bool:
        try:
            return input(self.screen.prompt(question)).strip().lower() in ("", "y", "yes")
        except (EOFError, KeyboardInterrupt):
            self.screen.line()
            return False


class Script(Lines):
    """The lines of a file, shown as if they were typed; blank ones and those that begin with # are skipped."""

    interactive = False

    def __init__(self, lines: Iterable[str], screen: Screen) -> None:
        self.lines = (line for line in map(str.strip, lines) if line and not line.startswith("#"))
        self.screen = screen

    def read(self, prompt: str) -> str | None:
        line = next(self.lines, None)
        if line is not None:
            self.screen.line(f"{prompt}{line}")
        return line


def typed_or_piped(screen: Screen) -> Lines:
    """What comes in: from a person where there is a terminal, else from a pipe."""
    return Terminal(screen) if sys.stdin.isatty() else Script(sys.stdin, screen)
