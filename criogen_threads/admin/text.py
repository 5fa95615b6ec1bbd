"""Text that a model, a tool or a user wrote, made safe to look at: escaped, and with nothing in it unseen."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.utils.html import escape, format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from criogen_threads.streaming.rendering import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.utils.functional import Promise
    from django.utils.safestring import SafeString

SHORT = 20_000
"""Characters of a message that are shown in a conversation; a page of its own has all of it."""

LISTED = 120
"""Characters of an argument that are shown in a list."""

UNSEEN_CATEGORIES = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
UNSEEN = {"\u034f", "\u115f", "\u1160", "\u17b4", "\u17b5", "\u2800", "\u3164", "\uffa0"}
"""Letters and marks that take room, or none, and show nothing."""

IN_PROSE = frozenset("\u00a0\u200d\u202f\ufe0e\ufe0f")
"""Spaces that do not break, and what emoji are joined with: no news in what people say to each other."""

ABSENT: Any = object()
"""There is no such argument."""


def is_unseen(character: str) -> bool:
    """Whether a reader cannot see this character, or what it does to its neighbours."""
    if character in "\n\t ":
        return False
    code = ord(character)
    return (
        character in UNSEEN
        or unicodedata.category(character) in UNSEEN_CATEGORIES
        or (unicodedata.category(character) == "Zs")
        or 0xFE00 <= code <= 0xFE0F
        or 0xE0100 <= code <= 0xE01EF
    )


def visible(text: str, *, prose: bool = False) -> SafeString:
    """The text as HTML, every invisible or direction-changing character as a mark with its number.

    Args:
        prose: Leave those that are usual in prose as they are.
    """
    if text.isascii() and text.isprintable():
        return escape(text)
    usual = IN_PROSE if prose else frozenset()
    return mark_safe("".join(_marked(text, usual)))  # noqa: S308 (escaped piece by piece)


def _marked(text: str, usual: frozenset[str]) -> Iterator[str]:
    start = 0
    for index, character in enumerate(text):
        if _is_suspect(character) and character not in usual and is_unseen(character):
            yield escape(text[start:index])
            yield _mark(character)
            start = index + 1
    yield escape(text[start:])


def _is_suspect(character: str) -> bool:
    """A quick look, as texts are long."""
    return not (character.isascii() and character.isprintable())


@lru_cache(maxsize=1_000)
def _mark(character: str) -> str:
    name = unicodedata.name(character, "")
    return format_html('<span class="criogen-mark" title="{}">U+{}</span>', name, f"{ord(character):04X}")


def pretty(value: Any) -> str:
    """Any JSON value as text over several lines."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def shown(value: Any) -> SafeString:
    """A JSON value in full: text as it is, everything else as JSON."""
    return visible(value if isinstance(value, str) else pretty(value))


def listed(value: Any) -> SafeString:
    """A JSON value on one line, cut where it is long: for lists, never where somebody decides."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= LISTED:
        return visible(text)
    more = _("… and %(count)d more characters") % {"count": len(text) - LISTED}
    return format_html("{} <em>{}</em>", visible(text[:LISTED]), more)


_KINDS: tuple[tuple[type | tuple[type, ...], Promise | str], ...] = (
    (bool, gettext_lazy("yes or no")),
    (str, gettext_lazy("text")),
    ((int, float), gettext_lazy("number")),
    (dict, gettext_lazy("object")),
    (list, gettext_lazy("list")),
)


def kind_of(value: Any) -> str:
    """What sort of JSON value it is, for people: "5" and 5 look alike."""
    return next((str(name) for kind, name in _KINDS if isinstance(value, kind)), _("nothing"))


@dataclass(frozen=True, slots=True)
class Argument:
    """One row of a table of arguments; ``state`` is "", "changed", "added" or "removed" beside an edited one."""

    name: SafeString
    kind: str
    value: SafeString
    edited: SafeString | None = None
    state: str = ""

    @property
    def label(self) -> str:
        """What was done to it, in words."""
        return {"changed": _("changed"), "added": _("added"), "removed": _("removed")}.get(self.state, "")


def arguments(values: Any, *, short: bool = False) -> list[Argument]:
    """A tool call's arguments as rows of a table."""
    show = listed if short else shown
    if not isinstance(values, dict):
        return [] if values is None else [Argument(visible(""), kind_of(values), show(values))]
    return [Argument(visible(name), kind_of(value), show(value)) for name, value in values.items()]


def difference(original: Any, edited: Mapping[str, Any]) -> list[Argument]:
    """Original and edited arguments beside each other."""
    before = original if isinstance(original, dict) else {}
    return [_compared(name, before.get(name, ABSENT), edited.get(name, ABSENT)) for name in {**before, **edited}]


def _compared(name: str, old: Any, new: Any) -> Argument:
    if old is ABSENT:
        return Argument(visible(name), kind_of(new), visible(""), shown(new), "added")
    if new is ABSENT:
        return Argument(visible(name), kind_of(old), shown(old), visible(""), "removed")
    same = type(old) is type(new) and old == new
    return Argument(visible(name), kind_of(new), shown(old), shown(new), "" if same else "changed")


@lru_cache(maxsize=500)
def formatted(text: str) -> SafeString | None:
    """Markdown as sanitised HTML; None where it stays plain, so that what is unseen in it can be marked."""
    if any(_is_suspect(each) and each not in IN_PROSE and is_unseen(each) for each in text):
        return None
    html = render(text)
    return None if html is None else mark_safe(html)  # noqa: S308 (sanitised by nh3)
