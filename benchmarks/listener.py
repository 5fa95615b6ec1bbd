"""A websocket that notes when frames arrive and reads them afterwards, so that listening costs next to nothing."""

from __future__ import annotations

import asyncio
import json
import os
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from tests.streaming.servers import cookie

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.streaming.servers import Web

TEXT, PING, PONG = 0x81, 0x89, 0x8A


class Listener(asyncio.Protocol):
    """One client. ``heard`` gives what came since ``begin``, with the moment at which its last byte came."""

    def __init__(self) -> None:
        self._buffer = b""
        self._frames: list[tuple[float, bytes]] = []
        self._is_open = False
        self._awaited = b""
        self._came = asyncio.Event()
        self._transport: Any = None

    @classmethod
    async def on(cls, web: Web, key: str, session: str) -> Listener:
        """A socket of a thread, open."""
        transport, self = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", web.port)
        fields = {
            "Host": f"127.0.0.1:{web.port}", "Upgrade": "websocket", "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": b64encode(os.urandom(16)).decode(), **cookie(session),
        }  # fmt: skip
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        transport.write(f"GET /ws/threads/{key}/ HTTP/1.1\r\n{head}\r\n".encode())
        await self.end()
        return self

    def begin(self, mark: bytes) -> None:
        """Forget what came; ``end`` waits for a frame with these bytes."""
        self._frames, self._awaited = [], mark
        self._came.clear()

    async def end(self) -> None:
        await self._came.wait()

    def heard(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """Frames, and when each was there."""
        return ((came, json.loads(data)) for came, data in self._frames)

    def say(self, **frame: Any) -> None:
        self._send(TEXT, json.dumps(frame).encode())

    def close(self) -> None:
        self._transport.abort()

    # The wire ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self._buffer += data
        if not self._is_open:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            if b" 101 " not in head:
                raise ConnectionError(head.decode())
            self._is_open, self._buffer = True, rest
            self._came.set()
        while (frame := _first_frame(self._buffer)) is not None:
            kind, payload, self._buffer = frame
            self._take(now, kind, payload)

    def _take(self, now: float, kind: int, payload: bytes) -> None:
        if kind == PING:
            self._send(PONG, payload)
        elif kind == TEXT:
            self._frames.append((now, payload))
            if self._awaited in payload:
                self._came.set()

    def _send(self, kind: int, data: bytes) -> None:
        """A frame under a mask of zeros, which is one, too."""
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        self._transport.write(bytes([kind]) + size + bytes(4) + data)


def _first_frame(data: bytes) -> tuple[int, bytes, bytes] | None:
    """A frame's kind and payload, and what is behind it; None where it is not whole. Servers mask nothing."""
    if len(data) < 2:
        return None
    length = data[1]
    start = 2 + {126: 2, 127: 8}.get(length, 0)
    if len(data) < start:
        return None
    if start > 2:
        length = int.from_bytes(data[2:start], "big")
    end = start + length
    return None if len(data) < end else (data[0], data[start:end], data[end:])
