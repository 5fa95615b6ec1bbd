"""The feed for clients that poll: what is new since the last look, and a place to look on from.

A poll is a feed that lives for one request. It runs on the process's own loop, so that it works under WSGI, too.
"""

from __future__ import annotations

import asyncio
import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.streaming import layer
from criogen_threads.streaming.feed import Feed, Resync
from criogen_threads.streaming.parts import ARGUMENTS, REASONING, TEXT
from criogen_threads.streaming.sse import changed
from criogen_threads.streaming.subscribing import stands
from criogen_threads.streaming.window import PAGE_BYTES

if TYPE_CHECKING:
    from criogen_threads.models import Thread
    from criogen_threads.streaming.feed import Frame
    from criogen_threads.streaming.showing import Viewer

SETTLE_SECONDS = 0.25
"""Seconds that are given to the process which runs the thread, to say what it has of the answer under way."""

GATHER_SECONDS = 0.2
"""Seconds for which the pieces of an answer are gathered, so that who polls and waits does so five times a second."""

MOST_PARTS = 50
"""Parts of a half answer that an address has room for. Of one with more, all are told again from their beginning."""


@dataclass
class Place:
    """Where a client stands: behind which event, with how much of the answer under way, and what it was told."""

    epoch: str | None = None
    after: int = 0
    message: str | None = None
    parts: dict[str, tuple[str, int]] = field(default_factory=dict)
    html_end: int = 0
    announced: tuple[Any, ...] = ()

    def text(self) -> str:
        """Opaque, for an address."""
        parts = [[name, kind, offset] for name, (kind, offset) in self.parts.items()]
        values = [self.epoch, self.after, self.message, parts, self.html_end, list(self.announced)]
        return urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode().rstrip("=")

    @classmethod
    def of(cls, text: str) -> Place:
        """Raises InvalidOptionError (``invalid_option``) for a text that is none."""
        try:
            values = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            epoch, after, message, parts, html_end, announced = values
            found = cls(epoch, after, message, {n: (k, offset) for n, k, offset in parts}, html_end, tuple(announced))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            found = None
        if found is None or not found._is_sound():
            raise errors.InvalidOptionError("cursor is from the next of a page")
        return found

    def _is_sound(self) -> bool:
        parts = self.parts.items()
        return (
            all(each is None or isinstance(each, str) for each in (self.epoch, self.message))
            and all(map(_is_number, (self.after, self.html_end)))
            and len(parts) <= MOST_PARTS
            and all(isinstance(name, str) and kind in (TEXT, REASONING, ARGUMENTS) for name, (kind, _) in parts)
            and all(_is_number(offset) for _, (_, offset) in parts)
            and all(each is None or isinstance(each, str | int) for each in self.announced)
        )


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


async def poll(thread: Thread, viewer: Viewer, place: Place, *, html: bool, seconds: float) -> dict[str, Any]:
    """What a client lacks.

    Args:
        thread: As the policy was asked about it.
        seconds: How long to wait for something new where there is nothing.

    Returns:
        As ``subscribing.stands``, with ``resync`` (what the client has is of another thread: this one is told from its
        beginning), ``results`` (frames) and ``place``.

    Raises:
        ThreadNotFoundError: ``thread_not_found``: it was deleted meanwhile, also where another has its key.
    """
    feed = Feed(thread.key, viewer, html=html)
    try:
        resync = await _start(feed, place)
        if not feed.shows(thread):
            raise errors.ThreadNotFoundError
        await _settle(feed)
        frames = await _frames(feed, seconds)
        standing = await stands(feed)
        return {**standing, "resync": resync, "results": [frame.whole for frame in frames], "place": _place(feed)}
    except Resync:
        raise errors.ThreadNotFoundError from None
    finally:
        feed.leave()


async def _start(feed: Feed, place: Place) -> bool:
    try:
        await feed.start(place.epoch, place.after)
    except Resync:
        await feed.start(None, 0)
        return True
    feed.open.message, feed.open.parts = place.message, dict(place.parts)
    feed.html_end, feed.announced = place.html_end, place.announced
    return False


def _place(feed: Feed) -> Place:
    epoch = str(feed.epoch) if feed.epoch else None
    fits = len(feed.open.parts) <= MOST_PARTS
    parts, html_end = (feed.open.parts, feed.html_end) if fits else ({}, 0)
    return Place(epoch, feed.seq, feed.open.message, parts, html_end, feed.announced)


async def _settle(feed: Feed) -> None:
    """Wait until it is known what is under way; not for long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            while _is_open(feed):
                feed.changed.clear()
                await feed.changed.wait()


def _is_open(feed: Feed) -> bool:
    watched, standing = feed.watched, feed.standing
    if standing is None or standing.state != "running":
        return False
    return not watched.settled or not (watched.certain or layer.shared_layer() is None)


async def _frames(feed: Feed, seconds: float) -> list[Frame]:
    """What is at hand, or comes in time; for those who wait, a few pieces of an answer together."""
    deadline = asyncio.get_running_loop().time() + seconds
    found = await _at_hand(feed)
    while not found and (left := deadline - asyncio.get_running_loop().time()) > 0:
        if await changed(feed, left):
            found = await _at_hand(feed)
    if seconds and any(frame.seq is None for frame in found):
        await asyncio.sleep(GATHER_SECONDS)
        found += await _at_hand(feed)
    return found


async def _at_hand(feed: Feed) -> list[Frame]:
    """Frames until there are no more, or enough for one answer."""
    frames: list[Frame] = []
    feed.changed.clear()
    while found := await feed.read():
        frames += found
        if sum(frame.size for frame in frames) >= PAGE_BYTES:
            break
    return frames
