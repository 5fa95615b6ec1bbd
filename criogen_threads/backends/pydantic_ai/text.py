"""Text and JSON as the wire and the database take them."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from criogen_threads.payload import NotStorable, check


def clean(text: str) -> str:
    """The text with surrogate pairs joined, and U+FFFD for every half of one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_json(value: Any) -> Any:
    """A JSON value whose texts are clean and whose numbers are finite (others become null)."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_arguments(text: str) -> dict[str, Any] | str:
    """A tool call's arguments as a JSON object, or the text itself where it is not one that can be stored."""
    if not text.strip():
        return {}
    try:
        value = clean_json(json.loads(text, parse_constant=_refuse, parse_float=_finite))
        check(value)
    except (ValueError, RecursionError, NotStorable):
        return clean(text)
    return value if isinstance(value, dict) else clean(text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large a number")
    return number


class Joiner:
    """Cleans text that comes in pieces: a surrogate pair may be cut between two of them."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be said now; half a pair at the end is held back."""
        text = self._held + piece
        self._held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return clean(text[:-1] if self._held else text)

    def flush(self) -> str:
        """What was held back, when no more comes."""
        held, self._held = self._held, ""
        return clean(held)
