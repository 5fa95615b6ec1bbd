"""The feed as server-sent events: one AG-UI event a ``data``, the last one of a frame with the id."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.contrib.auth import SESSION_KEY
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse

from criogen_threads import errors, inputs, problems, visitors
from criogen_threads.conf import settings
from criogen_threads.engine import telling
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming.feed import Feed, Frame, Resync
from criogen_threads.streaming.showing import Viewer
from criogen_threads.streaming.visitor import sight, user_of
from criogen_threads.streaming.wires import custom

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from django.http import HttpRequest

    from criogen_threads.streaming.visitor import Sight

logger = logging.getLogger("criogen_threads")

LONGEST_SECONDS = 300.0
LARGEST_BYTES = 1024 * 1024
KEEP_ALIVE_SECONDS = 15.0
OVER = ("idle", "failed")


@problems.answered
async def events(request: HttpRequest, key: str) -> HttpResponseBase:
    """The events of a thread, as they happen. Ids are ``<epoch>:<seq>``.

    The stream ends after five minutes or a megabyte, and where nothing is under way any more: a browser comes back
    with ``Last-Event-ID``, and is answered 204 (which ends it) where there is nothing new to wait for.

    Args:
        request: ``Last-Event-ID``, or ``?after=<seq>`` of a page that was read before; without either from the
            beginning.
        key: The thread's.

    Returns:
        Problems are 400, 401, 404, and 501 ``asgi_required`` on a WSGI server.
    """
    if not isinstance(request, ASGIRequest):
        raise errors.AsgiRequiredError
    key, place = inputs.thread_key(key), _place(request)
    seen = await look(request, key)
    if not seen.visible:
        raise refusal(seen)
    feed = Feed(key, await in_database(lambda: seen.viewer))
    try:
        moved = await _start(feed, place)
        if not feed.shows(seen.thread):
            raise errors.ThreadNotFoundError
        if not moved and await _is_over(feed):
            feed.leave()
            return HttpResponse(status=204)
        return await stream(_events(feed, request, moved=moved))
    except BaseException:
        feed.leave()
        raise


async def stream(pieces: AsyncIterator[str]) -> StreamingHttpResponse:
    """A response that nothing on the way holds back: GZipMiddleware would.

    It is begun here: a generator that was never begun lets go of nothing when its response is dropped.

    Args:
        pieces: The first one comes without being waited for.
    """
    first = await anext(pieces)
    response = StreamingHttpResponse(_going_on(first, pieces), content_type="text/event-stream")
    response["Cache-Control"] = "no-cache, no-transform"
    response["Content-Encoding"] = "identity"
    response["X-Accel-Buffering"] = "no"
    return response


async def _going_on(first: str, pieces: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for piece in pieces:
        yield piece


async def look(request: HttpRequest, key: str) -> Sight:
    """Who asks, and whether they may see the thread."""
    request.user = await request.auser()
    return await in_database(lambda: sight(visitors.actor(request), key))


def refusal(seen: Sight) -> errors.CriogenError:
    """What is not this user's to see does not exist for them."""
    return errors.ThreadNotFoundError() if visitors.is_somebody(seen.user) else problems.NotAuthenticatedError()


def _place(request: HttpRequest) -> tuple[str | None, int]:
    """The epoch and the number behind which to begin.

    Raises:
        InvalidOptionError: ``invalid_option``.
    """
    last = request.headers.get("Last-Event-ID")
    epoch, _, seq = last.rpartition(":") if last else ("", "", request.GET.get("after", "0"))
    if not (seq.isascii() and seq.isdigit() and len(seq) < 19):
        raise errors.InvalidOptionError("the place to begin at is '<epoch>:<number>', or ?after=<number>")
    return epoch or None, int(seq)


async def _start(feed: Feed, place: tuple[str | None, int]) -> bool:
    """Start a feed; True where the client's place is of another thread, so that it begins anew."""
    try:
        await feed.start(*place)
    except Resync:
        await feed.start(None, 0)
        return True
    return False


async def _is_over(feed: Feed) -> bool:
    """Whether this client has everything, and nothing is under way nor waits in line."""
    if feed.behind or (feed.standing is not None and feed.standing.state not in OVER):
        return False
    return await in_database(telling.is_at_rest, feed.key, feed.seq)


async def _events(feed: Feed, request: HttpRequest, *, moved: bool) -> AsyncIterator[str]:
    budget, deadline = LARGEST_BYTES, time.monotonic() + LONGEST_SECONDS
    try:
        yield ": here it begins\n\n"
        if moved:
            yield lines(Frame(0, None, [custom("resync", epoch=str(feed.epoch))]), feed)
        async for text in _lines(feed, request):
            yield text
            budget -= len(text.encode())
            if budget <= 0 or time.monotonic() > deadline:
                return
    except Resync:
        yield lines(Frame(None, None, [custom("resync", epoch=None)]), feed)
    except Exception:  # the database is away: its client comes back, and goes on from where it stands
        logger.warning("A stream of events failed", exc_info=True)
    finally:
        feed.leave()


async def _lines(feed: Feed, request: HttpRequest) -> AsyncIterator[str]:
    """What the feed has, until nothing more will come, or this person may not see it any more."""
    recheck = time.monotonic() + settings.RECHECK_SECONDS
    while True:
        feed.changed.clear()
        frames = await feed.read()
        for frame in frames:
            yield lines(frame, feed)
        if frames:
            continue
        if time.monotonic() > recheck:
            recheck = time.monotonic() + settings.RECHECK_SECONDS
            seen = await look_again(feed, request)
            if not seen.visible:
                return
            feed.viewer = await in_database(Viewer.of, seen.user, seen.thread)
        if await _is_over(feed):
            return
        if not await changed(feed, min(KEEP_ALIVE_SECONDS, recheck - time.monotonic())):
            yield ": still here\n\n"


async def changed(feed: Feed, seconds: float) -> bool:
    """Wait until there may be something new; False when there was not."""
    with suppress(TimeoutError):
        await asyncio.wait_for(feed.changed.wait(), max(0.0, seconds))
        return True
    return False


async def look_again(feed: Feed, request: HttpRequest) -> Sight:
    """Whether the session is still good and the thread still this user's to see: both read afresh."""
    return await in_database(_look_again, feed, request)


def _look_again(feed: Feed, request: HttpRequest) -> Sight:
    user = feed.viewer.user
    if SESSION_KEY in request.session or isinstance(user, visitors.AnonymousVisitor):
        request.session = type(request.session)(request.session.session_key)
        request.user = user_of(request.session)
        user = visitors.actor(request)
    return sight(user, feed.key)


def lines(frame: Frame, feed: Feed) -> str:
    """A frame as server-sent events; a cut never falls inside it, for only the last line has the id."""
    texts = [f"data: {as_json(event)}\n" for event in frame.events or [custom("state", **frame.extra)]]
    if frame.seq is not None and feed.epoch is not None:
        texts[-1] += f"id: {feed.epoch}:{frame.seq}\n"
    return "\n".join(texts) + "\n"


def as_json(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
