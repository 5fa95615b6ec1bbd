"""A client of the websocket that does what the documentation says, and keeps a transcript."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.streaming.servers import cookie
from tests.streaming.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.streaming.servers import Web

PATIENCE = 20.0

_guards: set[asyncio.Task[None]] = set()


class Client:
    """One person at one thread. It survives its connections."""

    def __init__(self, key: str, session: str) -> None:
        self.key = key
        self.session = session
        self.transcript = Transcript()
        self.replies: dict[int, dict[str, Any]] = {}
        self.frames: list[dict[str, Any]] = []
        self.close_code: int | None = None
        self._number = 0
        self._socket: Any = None

    async def connect(self, web: Web, *, origin: str | None = None, **subscribe: Any) -> dict[str, Any]:
        """Connect and subscribe behind what the transcript has; returns ``subscribed``."""
        await self.open(web, origin=origin)
        return await self.subscribe(**subscribe)

    async def open(self, web: Web, *, origin: str | None = None) -> None:
        headers = cookie(self.session) if self.session else {}
        self._socket = await connect(
            web.url(f"/ws/threads/{self.key}/"), additional_headers=headers, origin=origin,
            max_size=None, open_timeout=PATIENCE, ping_interval=None,
        )  # fmt: skip
        self.close_code = None
        guard = asyncio.create_task(_closed_at_the_end(self._socket))
        _guards.add(guard)
        guard.add_done_callback(_guards.discard)

    async def subscribe(self, **values: Any) -> dict[str, Any]:
        answer = await self.ask("subscribe", **{**self.transcript.place(), **values})
        if answer["type"] == "resync":
            self.transcript = Transcript()
            answer = await self.ask("subscribe", **self.transcript.place())
        self.transcript.epoch = answer.get("epoch") or self.transcript.epoch
        return answer

    async def cut(self) -> None:
        """Lose the connection, without a goodbye."""
        self._socket.transport.abort()
        await self._socket.wait_closed()

    async def close(self) -> None:
        await self._socket.close()

    async def say(self, **frame: Any) -> None:
        await self._socket.send(json.dumps(frame))

    async def raw(self, data: str | bytes) -> None:
        await self._socket.send(data)

    async def ask(self, type: str, **values: Any) -> dict[str, Any]:
        """Send a frame, and read until its answer comes."""
        self._number += 1
        number = self._number
        await self.say(type=type, id=number, **values)
        await self.until(lambda: number in self.replies)
        return self.replies.pop(number)

    async def read(self) -> dict[str, Any]:
        """The next frame, taken into the transcript."""
        try:
            frame = json.loads(await asyncio.wait_for(self._socket.recv(), PATIENCE))
        except ConnectionClosed as closed:
            self.close_code = closed.rcvd.code if closed.rcvd else None
            raise
        self.frames.append(frame)
        if "type" not in frame:
            self.transcript.apply(frame)
        elif "id" in frame:
            self.replies[frame["id"]] = frame
        if frame.get("type") == "page":
            await self.say(type="ack", page=frame["page"])
        elif frame.get("type") == "ping":
            await self.say(type="pong")
        elif frame.get("type") == "thread":
            self.transcript.epoch = frame["epoch"]
        return frame

    async def until(self, done: Callable[[], Any]) -> None:
        """Read frames until something is so."""
        async with asyncio.timeout(PATIENCE):
            while not done():
                await self.read()

    async def until_event(self, type: str, name: str = "") -> dict[str, Any]:
        """Read until an event of this type comes (a CUSTOM of this name), and return it."""
        found: list[dict[str, Any]] = []
        while not found:
            async with asyncio.timeout(PATIENCE):
                frame = await self.read()
            found = [e for e in frame.get("events", ()) if e["type"] == type and name in ("", e.get("name"))]
        return found[0]

    async def until_run_ends(self, run: str) -> None:
        await self.until(lambda: run in self.transcript.ended)


async def _closed_at_the_end(socket: Any) -> None:
    """When the test's loop ends, so does the connection."""
    try:
        await socket.wait_closed()
    finally:
        socket.transport.abort()
