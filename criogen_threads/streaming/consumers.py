"""The websocket of a thread.

Turns never run in here: a consumer handles one frame at a time. It is not attached to the channel layer; it reads
the relay.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import TYPE_CHECKING, Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from criogen_threads import errors, inputs
from criogen_threads.conf import settings
from criogen_threads.engine.pools import in_database
from criogen_threads.problems import NotAuthenticatedError
from criogen_threads.streaming.commands import COMMANDS, Request
from criogen_threads.streaming.feed import Feed, Resync
from criogen_threads.streaming.frames import (
    FrameInvalidError,
    FrameTooLargeError,
    OriginRefusedError,
    SilentError,
    echo,
    parse,
)
from criogen_threads.streaming.subscribing import subscribed
from criogen_threads.streaming.visitor import Visitor
from criogen_threads.streaming.window import Window
from criogen_threads.streaming.wires import PROTOCOL
from criogen_threads.visitors import is_somebody

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from criogen_threads.streaming.visitor import Sight

logger = logging.getLogger("criogen_threads")

LARGEST_FRAME = 1024 * 1024
PINGS = 3
"""Pings in the time that a socket may be silent."""

COMMANDS_AT_ONCE = 8

CLOSE = {
    "not_authenticated": 4401,
    "origin_refused": 4403,
    "thread_not_found": 4404,
    "invalid_thread_id": 4404,
    "silent": 4408,
    "frame_too_large": 4413,
    "internal_error": 4500,
}
"""What a socket is closed with, by the code of the error frame before it."""


class ThreadConsumer(AsyncConsumer):  # type: ignore[misc]  # channels has no types
    """``/ws/threads/{key}/``."""

    channel_layer_alias = "criogen-threads-uses-none"

    # The socket ------------------------------------------------------------------------------------------------

    async def dispatch(self, message: Mapping[str, Any]) -> None:
        """Without channels' own visit to the thread that all synchronous code shares: it may be slow."""
        await getattr(self, message["type"].replace(".", "_"))(message)

    async def websocket_connect(self, message: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.key: str = self.scope["url_route"]["kwargs"]["key"]
        self.visitor = Visitor(self.scope)
        self.feed: Feed | None = None
        self.window = Window()
        self.ticket: Any = None
        self.closed = False
        self.heard = time.monotonic()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writer: asyncio.Task[Any] | None = None
        self._commands = asyncio.Semaphore(COMMANDS_AT_ONCE)
        self._in_order = asyncio.Lock()
        await self.send({"type": "websocket.accept"})
        if not self.visitor.has_good_origin():
            logger.warning("A websocket from the origin %r was refused: see ALLOWED_ORIGINS", self.visitor.origin)
            await self._refuse(OriginRefusedError())
            return
        try:
            self.key = inputs.thread_key(self.key)
            await self._look()
        except errors.CriogenError as error:
            await self._refuse(error)
        if not self.closed:
            self._spawn(self._attend())

    async def websocket_disconnect(self, message: Mapping[str, Any]) -> None:  # noqa: ARG002
        self._end()
        raise StopConsumer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:  # daphne cancels a consumer, and may never say that the peer is gone
            self._end()

    def _end(self) -> None:
        self.closed = True
        for task in getattr(self, "_tasks", ()):
            task.cancel()
        if getattr(self, "feed", None) is not None:
            self.feed.leave()  # type: ignore[union-attr]

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _say(self, type: str, **values: Any) -> None:
        """A frame that is not of the feed. ASCII: what a client sent comes back in it."""
        if not self.closed:
            await self.send({"type": "websocket.send", "text": json.dumps({"type": type, **values})})

    async def _refuse(self, error: errors.CriogenError) -> None:
        """Say why, then close: a refused handshake would be a bare 403."""
        if self.closed:
            return
        await self._say("error", code=error.code, message=error.shown)
        self.closed = True
        await self.send({"type": "websocket.close", "code": CLOSE.get(error.code, CLOSE["internal_error"])})

    async def _look(self) -> Sight:
        """Who this is now; closes the socket of whoever may not see the thread (any more)."""
        sight = await in_database(self.visitor.look, self.key)
        if not sight.visible and (sight.thread is not None or not is_somebody(sight.user)):
            if is_somebody(sight.user):
                await self._refuse(errors.ThreadNotFoundError())
            else:
                await self._refuse(NotAuthenticatedError())
        return sight

    async def _attend(self) -> None:
        """Pings, and a look at the session and the permission from time to time."""
        pause = min(settings.SOCKET_SECONDS / PINGS, settings.RECHECK_SECONDS)
        looked = time.monotonic()
        while not self.closed:
            await asyncio.sleep(pause)
            if time.monotonic() - self.heard > settings.SOCKET_SECONDS:
                await self._refuse(SilentError())
                return
            if time.monotonic() - looked >= settings.RECHECK_SECONDS:
                looked = time.monotonic()
                await self._recheck()
            await self._say("ping")

    async def _recheck(self) -> None:
        try:
            sight = await self._look()
            viewer = await in_database(lambda: sight.viewer)
        except Exception:  # the database is away: the next look asks again
            logger.warning("A websocket's permission could not be looked at", exc_info=True)
            return
        if self.feed is not None:
            self.feed.viewer = viewer

    # Frames ------------------------------------------------------------------------------------------------------

    async def websocket_receive(self, message: Mapping[str, Any]) -> None:
        if self.closed:
            return
        self.heard = time.monotonic()
        text = message.get("text")
        if text is not None and len(text) > LARGEST_FRAME:
            await self._refuse(FrameTooLargeError())
            return
        try:
            frame = parse(text)
        except FrameInvalidError as error:
            await self._say("error", code=error.code, message=error.shown)
            return
        await self._handle(frame)

    async def _handle(self, frame: dict[str, Any]) -> None:
        kind = frame.get("type")
        if not isinstance(kind, str) or (kind not in COMMANDS and kind not in self._OWN):
            await self._fail(frame, FrameInvalidError("the frame has no known 'type'"))
        elif kind not in COMMANDS:
            await self._guarded(frame, self._OWN[kind](self, frame))
        elif self._commands.locked():
            await self._fail(frame, errors.TooManyRunsError("too many frames at once"))
        else:
            await self._commands.acquire()
            self._spawn(self._command(frame))

    async def _guarded(self, frame: dict[str, Any], work: Coroutine[Any, Any, None]) -> None:
        """Whatever a frame meets is an error frame; the socket lives."""
        try:
            await work
        except errors.CriogenError as error:
            await self._fail(frame, error)
        except Exception:
            logger.exception("A frame failed")
            await self._fail(frame, errors.InternalError("this frame failed"))

    async def _fail(self, frame: dict[str, Any], error: errors.CriogenError) -> None:
        details = {"details": error.details} if error.details else {}
        await self._say("error", **echo(frame), code=error.code, message=error.shown, **details)

    async def _command(self, frame: dict[str, Any]) -> None:
        try:
            await self._guarded(frame, self._run_command(frame))
        finally:
            self._commands.release()

    async def _run_command(self, frame: dict[str, Any]) -> None:
        async with self._in_order:
            sight = await self._look()
            if self.closed:
                return
            request = Request(self.key, self.visitor, sight, frame, self.ticket)
            done = await COMMANDS[frame["type"]](request)
        await self._say("ack", **echo(frame), of=frame["type"], **done)
        if self.feed is not None:
            self.feed.look_again()

    async def _hello(self, frame: dict[str, Any]) -> None:
        self.ticket = frame.get("ticket", self.ticket)
        await self._say("hello", **echo(frame), protocol=PROTOCOL, thread=self.key)

    async def _ack(self, frame: dict[str, Any]) -> None:
        page = frame.get("page")
        if type(page) is not int or not self.window.acknowledge(page):
            raise FrameInvalidError("'page' is not the number of a page that was sent")

    async def _ping(self, frame: dict[str, Any]) -> None:
        await self._say("pong", **echo(frame))

    async def _pong(self, frame: dict[str, Any]) -> None:
        """A sign of life, which every frame is."""

    async def _subscribe(self, frame: dict[str, Any]) -> None:
        sight = await self._look()
        if self.closed:
            return
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait({self._writer})
        viewer = await in_database(lambda: sight.viewer)
        if self.feed is None:
            self.feed = Feed(self.key, viewer)
        self.feed.viewer, self.feed.html = viewer, frame.get("html") is True
        try:
            answer = await subscribed(self.feed, frame)
        except Resync:
            epoch = self.feed.watched.epoch
            await self._say("resync", **echo(frame), epoch=str(epoch) if epoch else None)
            return
        if not self.feed.shows(sight.thread):  # its key was begun between the two: may that one be seen?
            await self._subscribe(frame)
            return
        await self._say("subscribed", **echo(frame), **answer)
        self._writer = self._spawn(self._write(self.feed))

    _OWN = {"hello": _hello, "ack": _ack, "ping": _ping, "pong": _pong, "subscribe": _subscribe}

    # The feed ----------------------------------------------------------------------------------------------------

    async def _write(self, feed: Feed) -> None:
        """Send what the feed has, as fast as the client reads it."""
        try:
            while not self.closed:
                feed.changed.clear()
                if feed.appeared:
                    await self._appeared(feed)
                for frame in await feed.read():
                    await self.window.room(replay=feed.behind)
                    await self.send({"type": "websocket.send", "text": frame.text})
                    if page := self.window.count(frame.size):
                        await self._say("page", page=page)
                    feed.changed.set()
                await feed.changed.wait()
        except Resync:
            await self._say("resync", epoch=str(feed.watched.epoch) if feed.watched.epoch else None)
        except errors.CriogenError as error:
            await self._say("error", code=error.code, message=error.shown)
        except Exception:
            logger.exception("A feed failed")
            await self._refuse(errors.InternalError("The feed failed; connect again."))

    async def _appeared(self, feed: Feed) -> None:
        """The thread was made: is it this user's to see?"""
        sight = await self._look()
        if self.closed:
            return
        if sight.thread is not None and sight.thread.pk == feed.watched.epoch:  # else it is gone or another by now
            feed.viewer = await in_database(lambda: sight.viewer)
            feed.adopt()
        await self._say("thread", epoch=str(feed.epoch))
