"""HTML of a message's Markdown: rendered and sanitised here, in threads of its own, once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

import nh3
from markdown_it import MarkdownIt

from criogen_threads.engine.pools import DaemonPool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.token import Token

MOST_CHARACTERS = 50_000
"""Longer texts stay plain."""

MOST_NESTING = 20
KEPT = 500
"""Rendered texts that a process keeps."""

TAGS = {
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em",
    "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {
    **{tag: {"dir"} for tag in TAGS}, "a": {"href", "title"}, "code": {"class", "dir"}, "ol": {"start", "dir"},
}  # fmt: skip
SCHEMES = {"http", "https", "mailto", "tel"}
BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "th", "td"}

_markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": MOST_NESTING}).enable(["table", "strikethrough"])
_markdown.disable(["image"])  # a remote image would carry the conversation out
_pool = DaemonPool("criogen-render", lambda: 2)
_cache: OrderedDict[str, str | None] = OrderedDict()
_remembering = threading.Lock()


def render(text: str) -> str | None:
    """Sanitised HTML, or None where the text is to stay plain: too long, or nested so deep that text would go."""
    if len(text) > MOST_CHARACTERS:
        return None
    tokens = _markdown.parse(text)
    if any(token.level >= MOST_NESTING - 1 for token in _all(tokens)):
        return None
    for token in tokens:
        if token.nesting == 1 and token.tag in BLOCKS:
            token.attrSet("dir", "auto")
    html: str = _markdown.renderer.render(tokens, _markdown.options, {})
    return nh3.clean(
        html, tags=TAGS, attributes=ATTRIBUTES, url_schemes=SCHEMES, link_rel="noopener noreferrer nofollow",
        attribute_filter=_attribute,
    )  # fmt: skip


def _all(tokens: Iterable[Token]) -> Iterable[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "class":
        return value if tag == "code" and value.startswith("language-") else None
    return value


async def rendered(text: str) -> str | None:
    """``render`` in a thread, remembered."""
    if known := _known(text):
        return known[0]
    return await _pool.submit(partial(rendered_here, text))


def rendered_here(text: str) -> str | None:
    """``render`` in this thread, remembered."""
    if known := _known(text):
        return known[0]
    html = render(text)
    with _remembering:
        _cache[text] = html
        while len(_cache) > KEPT:
            _cache.popitem(last=False)
    return html


def _known(text: str) -> tuple[str | None] | None:
    """What was rendered of a text before, which may be None; None where it was not."""
    with _remembering:
        if text not in _cache:
            return None
        _cache.move_to_end(text)
        return (_cache[text],)


def closed(text: str, start: int) -> int:
    """Where the blocks that begin at ``start`` are complete: behind the last empty line outside of a fence."""
    end, fence, position = start, "", start
    for line in text[start:].splitlines(keepends=True):
        position += len(line)
        mark = line.lstrip()[:3]
        if fence:
            fence = "" if mark == fence and not line.strip().strip(fence[0]) else fence
        elif mark in ("```", "~~~"):
            fence = mark
        elif not line.strip() and line.endswith("\n"):
            end = position
    return end
