"""What is shown: words as they come, everything else as quiet lines."""

from __future__ import annotations

import json
import re
import shutil
import threading
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.core.management.base import OutputWrapper

DIM, BOLD, RED, YELLOW = "2", "1", "31", "33"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
READLINE_SKIPS = "\001{}\002"  # so that readline does not count a colour as columns


class Screen:
    """Writes to a terminal or a file. What a model or a tool wrote cannot move the cursor.

    Args:
        out: Where to.
        colour: Whether it understands colours.
    """

    def __init__(self, out: OutputWrapper, *, colour: bool) -> None:
        self.out = out
        self.colour = colour
        self._inside_line = False
        self._writing = threading.RLock()

    def line(self, text: str = "", style: str = "") -> None:
        """One whole line, below whatever was being written."""
        with self._writing:
            self.end_line()
            self._write(self._styled(CONTROL.sub("", text), style) + "\n")

    def quiet(self, text: str, mark: str = "") -> None:
        """A line beside the conversation, cut to the width of the terminal when it has a mark."""
        if mark:
            width = shutil.get_terminal_size().columns
            text = f"  {mark} {' '.join(text.split())}"
            text = text if len(text) < width else text[: width - 2] + "…"
        self.line(text, DIM)

    def error(self, text: str) -> None:
        self.line(text, RED)

    def label(self, name: str) -> None:
        """Who speaks now; the words follow as pieces."""
        with self._writing:
            self.end_line()
            self._write(self._styled(f"{name}: ", BOLD))
            self._inside_line = True

    def piece(self, text: str) -> None:
        """The next words of whoever speaks."""
        with self._writing:
            text = CONTROL.sub("", text)
            self._write(text)
            self._inside_line = not text.endswith("\n") if text else self._inside_line

    def end_line(self) -> None:
        """Make sure that what follows begins at the left."""
        with self._writing:
            if self._inside_line:
                self._write("\n")
            self._inside_line = False

    def prompt(self, text: str) -> str:
        """A prompt for ``input()``."""
        self.end_line()
        if not self.colour:
            return text
        return READLINE_SKIPS.format(f"\x1b[{BOLD}m") + text + READLINE_SKIPS.format("\x1b[0m")

    def approval(self, call: Mapping[str, Any], who: str) -> None:
        """An approval that waits, with all of its arguments: nothing of what is approved is hidden."""
        self.line(_("%(tool)s waits for an approval:") % {"tool": call["name"]}, YELLOW)
        arguments = call["arguments"]
        rows = arguments.items() if isinstance(arguments, dict) else [("", arguments)]
        for name, value in rows:
            self.line(f"    {visible(name)}: {visible(as_json(value))}")
        self.line(
            _("You answer as %(who)s. y: run it. n: do not. n and a reason: the desk is told why.") % {"who": who}
        )

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and self.colour and text else text

    def _write(self, text: str) -> None:
        self.out.write(text, ending="")
        self.out.flush()


def as_json(value: Any) -> str:
    """A value as one line of JSON."""
    return json.dumps(value, ensure_ascii=False)


def visible(text: str) -> str:
    """Text whose invisible and direction-changing characters are shown by their numbers."""
    return "".join(each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in text)


def arguments_line(arguments: Any) -> str:
    """Arguments of a tool in a few words."""
    if not isinstance(arguments, dict):
        return as_json(arguments)
    return ", ".join(f"{name}: {as_plain(value)}" for name, value in arguments.items())


def as_plain(value: Any) -> str:
    """Text as it is, a flat dict as its pairs, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value and not any(isinstance(each, dict | list) for each in value.values()):
        return arguments_line(value)
    return as_json(value)
