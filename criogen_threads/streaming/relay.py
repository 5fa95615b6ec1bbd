"""The relay: one a process. What it knows of the threads that this process's sockets and streams watch.

It hears the hub of its own process at once, and other processes over one channel of the channel layer. Both may
lose anything: once a second one query for all watched threads says what is missing, and the database and the
process that runs a thread fill it in.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from criogen_threads.engine import dispatch, telling
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming import layer
from criogen_threads.streaming.hub import hub
from criogen_threads.streaming.reading import Reader
from criogen_threads.streaming.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from criogen_threads.engine.telling import Standing

logger = logging.getLogger("criogen_threads")

LOOK_SECONDS = 1.0
REJOIN_SECONDS = 60.0
JOIN_SECONDS = 2.0
"""Seconds that a join waits for the layer; it goes on without it, and is healed."""


class Relay:
    """Made by ``get_relay`` for the running loop. All but ``heard`` belongs to that loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.watched: dict[str, Watched] = {}
        self.channel: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reader = Reader(self._spawn)
        self._joined: set[str] = set()
        self._rejoin = asyncio.Event()
        hub.add(self)
        dispatch.attend()  # who is watched here may have been left in line by a process that died
        self._spawn(self._look())
        if layer.shared_layer() is not None:
            self._spawn(self._receive())
            self._spawn(self._keep_joined())

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Watching --------------------------------------------------------------------------------------------------

    async def watch(self, key: str, cursor: asyncio.Event) -> Watched:
        """Begin to watch a thread for a cursor; returns when it is known where the thread stands."""
        watched = self.watched.get(key)
        if watched is None:
            watched = self.watched[key] = Watched(key)
        watched.cursors.add(cursor)
        try:
            if self.channel is not None and key not in self._joined:
                await self._join(key)
            await self._reader.now(watched)
        except BaseException:
            self.leave(watched, cursor)
            raise
        self._ask(watched)
        return watched

    def leave(self, watched: Watched, cursor: asyncio.Event) -> None:
        """A cursor is gone; the last one takes the thread along."""
        watched.cursors.discard(cursor)
        if not watched.cursors and self.watched.get(watched.key) is watched:
            del self.watched[watched.key]
            if watched.key in self._joined:
                self._joined.discard(watched.key)
                self._spawn(self._part(watched.key))

    def look_again(self, watched: Watched) -> None:
        """Read the database soon; several wishes are one visit."""
        self._reader.soon(watched)

    # Hearing ---------------------------------------------------------------------------------------------------

    def heard(self, message: Mapping[str, Any]) -> None:
        """The hub of this process; called from any thread."""
        if message["key"] not in self.watched:
            return
        try:
            self.loop.call_soon_threadsafe(self._hear, message)
        except RuntimeError:  # the loop is closed
            hub.remove(self)

    def _hear(self, message: Mapping[str, Any]) -> None:
        watched = self.watched.get(message["key"])
        if watched is None:
            return
        match message["type"]:
            case "criogen.live":
                self._hear_piece(watched, message)
            case "criogen.saved":
                watched.heard = max(watched.heard, message["seq"])
                for message_id in message["messages"]:
                    watched.settle(message_id)
                self.look_again(watched)
            case "criogen.discarded":
                watched.settle(message["message"])
                watched.wake()
            case "criogen.snapshot":
                self._hear_snapshot(watched, message["open"])

    def _hear_snapshot(self, watched: Watched, half: Mapping[str, Any] | None) -> None:
        if half is None and watched.open is not None:
            watched.unverified = watched.doubted = True
        watched.hear_snapshot(half)
        if watched.unverified:
            self.look_again(watched)
        else:
            watched.wake()

    def _hear_piece(self, watched: Watched, piece: Mapping[str, Any]) -> None:
        if not watched.hear_piece(piece):
            self._ask(watched)
        if watched.unverified:
            self.look_again(watched)  # is it saved already, and is what was open before it?
        else:
            watched.wake()

    def _ask(self, watched: Watched) -> None:
        """Ask the process that runs a thread for the answer under way."""
        standing = watched.standing
        if standing is None or standing.holder is None or standing.state != "running":
            return
        here = hub.snapshot(watched.key, standing.thread_id)
        if here is not None:
            self._hear(here)
        elif self.channel is not None:
            question = {
                "type": "criogen.ask", "key": watched.key, "thread": str(standing.thread_id), "reply": self.channel,
            }  # fmt: skip
            hub.publisher.post("send", layer.worker_channel(standing.holder), question)

    # Once a second -----------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            keys = list(self.watched)
            if not keys:
                continue
            try:
                standings = await in_database(telling.standings, keys)
            except Exception:  # the database is away
                logger.warning("The feed could not look at its threads", exc_info=True)
                continue
            for key in keys:
                if watched := self.watched.get(key):
                    self._compare(watched, standings.get(key))

    def _compare(self, watched: Watched, standing: Standing | None) -> None:
        if watched.known and standing != watched.standing:
            self.look_again(watched)
        if watched.gap or not watched.certain:
            self._ask(watched)

    # The channel layer -------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        """Hear the layer; after an error on a new channel, with every group joined anew."""
        while True:
            shared = layer.shared_layer()
            try:
                self.channel = await shared.new_channel()
                self._joined.clear()
                self._rejoin.set()
                while True:
                    message = await shared.receive(self.channel)
                    if message.get("from") != hub.id:
                        self._hear(message)
            except Exception:  # the layer is away: the look heals, and the layer is tried again
                logger.warning("The channel layer failed; the feed goes on without it", exc_info=True)
                self.channel = None
                await asyncio.sleep(LOOK_SECONDS)

    async def _keep_joined(self) -> None:
        while True:
            try:
                async with asyncio.timeout(REJOIN_SECONDS):
                    await self._rejoin.wait()
            except TimeoutError:
                self._joined.clear()
            self._rejoin.clear()
            for key in [key for key in self.watched if key not in self._joined]:
                await self._join(key)

    async def _join(self, key: str) -> None:
        if self.channel is None:
            return
        self._joined.add(key)
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                await layer.shared_layer().group_add(layer.group(key), self.channel)
        except Exception:  # healed by the look, joined again by the next round
            self._joined.discard(key)
            logger.warning("A group of the channel layer could not be joined", exc_info=True)

    async def _part(self, key: str) -> None:
        if self.channel is None or key in self.watched:
            return
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                await layer.shared_layer().group_discard(layer.group(key), self.channel)
        except Exception:
            logger.warning("A group of the channel layer could not be left", exc_info=True)


_relays: dict[asyncio.AbstractEventLoop, Relay] = {}


def get_relay() -> Relay:
    """This process's relay: the one of the running loop, which a server has once."""
    loop = asyncio.get_running_loop()
    relay = _relays.get(loop)
    if relay is None:
        for other in [each for each in _relays if each.is_closed()]:
            hub.remove(_relays.pop(other))
        relay = _relays[loop] = Relay()
    return relay
