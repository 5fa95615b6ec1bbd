"""The feed under load: 200 sockets on one web process, 20 turns at once in another.

    python -m benchmarks.stream

It starts a PostgreSQL, a Valkey and two daphnes of its own. Printed are the delays from the moment at which the model
gave a piece until a client had it (the clients run beside, on the same machine), the first token's delay beside a
bare echo through the channel layer in the same run, and the processor time of both web processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.services import PostgreSQL, Valkey

SOCKETS = 200
TURNS = 20
PIECES = 250
PAUSE = 0.02
ECHOES = 200


def main() -> None:
    with PostgreSQL() as postgres, Valkey() as valkey, tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "DATABASE_URL": postgres.url,
            "DJANGO_SETTINGS_MODULE": "tests.streaming.settings",
            "CRIOGEN_TEST_LAYER": valkey.url,
        }
        import django

        django.setup()
        _bench(Path(folder), valkey.url)


def _bench(folder: Path, layer: str) -> None:
    from django.core.management import call_command
    from django.db import connection

    from tests.streaming.conftest import Room, begin
    from tests.streaming.servers import web

    call_command("migrate", verbosity=0)
    rooms = [Room() for _ in range(TURNS)]
    for room in rooms:
        begin(room)
    connection.close()
    with web(folder, 2, layer=layer, LEASE_SECONDS=30, HEARTBEAT_SECONDS=10) as sites:
        asyncio.run(_measure(rooms, sites))


async def _measure(rooms: list[Any], sites: list[Any]) -> None:
    watchers = [rooms[number % TURNS].client() for number in range(SOCKETS)]
    senders = [room.client() for room in rooms]
    for client in watchers:
        await client.open(sites[0])
        await client.say(type="subscribe")
    for client in senders:
        await client.open(sites[1])
    echoes = await _echo()
    before = [_processor_seconds(site.process.pid) for site in sites]
    began = time.monotonic()
    heard = [Heard(client) for client in watchers]
    listening = asyncio.gather(*(each.listen() for each in heard))
    text = json.dumps({"clock": PIECES, "delay": PAUSE})
    await asyncio.gather(*(client.say(type="send", text=text) for client in senders))
    async with asyncio.timeout(PIECES * PAUSE * 10 + 30):
        await listening
    took = time.monotonic() - began
    used = [_processor_seconds(site.process.pid) - start for site, start in zip(sites, before, strict=True)]
    _report(heard, echoes, took, used)


class Heard:
    """One socket, and when it heard what."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.first = 0.0
        self.newest: list[float] = []  # since the last piece of each frame
        self.oldest: list[float] = []  # since its first one, which waited for the others
        self.text = ""

    async def listen(self) -> None:
        async for data in self.client._socket:
            now = time.time()
            frame = json.loads(data)
            if frame.get("type") == "ping":
                await self.client.say(type="pong")
            elif "message" in frame and frame.get("seq", 0) is None:
                self._hear(frame["events"][-1]["delta"], now)
            elif any(event["type"] == "RUN_FINISHED" for event in frame.get("events", ())):
                return
            else:
                self._rest(frame)

    def _hear(self, delta: str, now: float) -> None:
        ticks = [float(line) for line in delta.split()]
        self.first = self.first or now - ticks[0]
        self.newest.append(now - ticks[-1])
        self.oldest.append(now - ticks[0])
        self.text += delta

    def _rest(self, frame: dict[str, Any]) -> None:
        ends = [event for event in frame.get("events", ()) if event["type"] == "TEXT_MESSAGE_END"]
        if ends and not frame["events"][0].get("role"):
            self.text += "".join(e["delta"] for e in frame["events"] if e["type"] == "TEXT_MESSAGE_CONTENT")


async def _echo() -> list[float]:
    """A bare message through the layer and back."""
    from channels.layers import get_channel_layer

    layer: Any = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add("criogen.echo", channel)
    delays = []
    for _ in range(ECHOES):
        await layer.group_send("criogen.echo", {"type": "echo", "at": time.time()})
        message = await layer.receive(channel)
        delays.append(time.time() - message["at"])
        await asyncio.sleep(0.005)
    await layer.flush()
    return delays


def _processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _report(heard: list[Heard], echoes: list[float], took: float, used: list[float]) -> None:
    complete = sum(len(each.text.split()) == PIECES for each in heard)
    newest = [delay for each in heard for delay in each.newest]
    oldest = [delay for each in heard for delay in each.oldest]
    print(f"{SOCKETS} sockets, {TURNS} turns of {PIECES} pieces at {PAUSE * 1000:.0f} ms: {took:.1f} s")
    print(f"complete transcripts: {complete} of {len(heard)}; frames: {len(newest)}")
    print(f"delivery of a frame:        {_line(newest)}")
    print(f"a piece, coalescing included: {_line(oldest)}")
    print(f"first token:                {_line([each.first for each in heard])}")
    print(f"bare echo through the layer: {_line(echoes)}")
    print(f"processor: watching {used[0]:.1f} s, running {used[1]:.1f} s of {took:.1f} s")


def _line(delays: list[float]) -> str:
    ordered = sorted(delays)
    worst = ordered[int(len(ordered) * 0.95)]
    middle, most = statistics.median(ordered), ordered[-1]
    return f"median {middle * 1000:.1f} ms, p95 {worst * 1000:.1f} ms, most {most * 1000:.1f} ms"


if __name__ == "__main__":
    main()
