"""A web process that is killed in the middle of a turn."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from tests.services import Valkey
from tests.streaming.puppet import wish
from tests.streaming.servers import FAST, Web, web
from tests.streaming.slowness import Stopwatch
from tests.streaming.test_bounds import post_run
from tests.streaming.test_polling import Poller
from tests.streaming.transcript import stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.streaming.client import Client
    from tests.streaming.conftest import Room

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="two processes are for PostgreSQL"),
]

SLOW = wish("Ein langer Text 👩‍👩‍👧. " * 40, delay=0.02, chunk=6)


@pytest.fixture(params=["layer", "no layer"])
def layer(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("valkey").url if request.param == "layer" else ""


@pytest.fixture
def survivor(layer: str, committed: None, tmp_path: Path) -> Iterator[Web]:
    with web(tmp_path, layer=layer) as (process,):
        yield process


async def test_a_killed_process_is_seen_as_interrupted_and_retry_goes_on(
    survivor: Web, layer: str, tmp_path: Path, room: Room
) -> None:
    dying = await asyncio.to_thread(lambda: Web(tmp_path, layer=layer).ready())
    own, other = room.client(), room.client()
    try:
        await own.connect(dying)
        await other.connect(survivor)
        sent = await own.ask("send", text=SLOW)
        await own.until(lambda: len(next(iter(own.transcript.live.values()), "")) > 60)
    finally:
        dying.kill()
    async with Stopwatch() as since_it_died:
        half = own.transcript.live.copy()
        assert half, "the half answer is there while nobody knows"
        await own.connect(survivor)  # comes back with its half answer
        for client in (own, other):
            await client.until(lambda client=client: client.transcript.ended.get(sent["run"]) == "thread_interrupted")
    assert since_it_died.within(FAST["LEASE_SECONDS"] + 2)
    assert own.transcript.live == other.transcript.live == {}, "the half answer is withdrawn"
    assert (await own.ask("send", text="hello?"))["code"] == "thread_interrupted"
    assert (await own.ask("retry"))["run"] == sent["run"]
    for client in (own, other):
        await client.until(lambda client=client: client.transcript.ended.get(sent["run"]) == "success")
    said = stored(await in_database(reads.messages, room.key))
    assert own.transcript.said == other.transcript.said == said
    assert len(said) == 2


async def ended_as(client: Client, run: str, code: str) -> None:
    await client.until(lambda: client.transcript.ended.get(run) == code)


async def test_a_graceful_stop_costs_no_lease(survivor: Web, layer: str, tmp_path: Path, room: Room) -> None:
    """What a stopping process abandons is seen at once, under daphne as under uvicorn."""
    lease = 60
    for server in ("daphne", "uvicorn"):
        leaving = await asyncio.to_thread(
            lambda s=server: Web(tmp_path, layer=layer, server=s, LEASE_SECONDS=lease).ready()
        )
        own, other = room.client(), room.client()
        await own.connect(leaving)
        await other.connect(survivor)
        sent = await own.ask("send", text=wish("word " * 400, delay=0.03, chunk=5))
        await own.until_event("TEXT_MESSAGE_CONTENT")
        await own.cut()
        before = time.monotonic()
        await asyncio.to_thread(leaving.stop)
        await ended_as(other, sent["run"], "thread_interrupted")
        assert time.monotonic() - before < lease
        assert (await other.ask("retry"))["type"] == "ack"
        await other.ask("cancel", run=sent["run"])
        await ended_as(other, sent["run"], "cancelled")
        await other.close()


async def test_under_wsgi_a_turn_is_sent_and_polled_and_a_graceful_stop_costs_no_lease(
    survivor: Web, layer: str, tmp_path: Path, room: Room
) -> None:
    pytest.importorskip("gunicorn", reason="gunicorn is not installed: no WSGI server is tested")
    lease = 60
    leaving = await asyncio.to_thread(
        lambda: Web(tmp_path, layer=layer, server="gunicorn", LEASE_SECONDS=lease).ready()
    )
    other, poller = room.client(), Poller(room)
    await other.connect(survivor)
    status, sent = await asyncio.to_thread(post_run, leaving, room, wish("word " * 400, delay=0.03, chunk=5))
    assert status == 202
    while not any("word" in text for text in poller.transcript.live.values()):
        await poller.poll(leaving, 5)
    before = time.monotonic()
    await asyncio.to_thread(leaving.stop)
    await ended_as(other, sent["id"], "thread_interrupted")
    assert time.monotonic() - before < lease
    assert (await other.ask("retry"))["type"] == "ack"
    await other.ask("cancel", run=sent["id"])
    await ended_as(other, sent["id"], "cancelled")


async def test_a_layer_that_hangs_or_dies_holds_no_run_and_the_feed_heals(
    committed: None, tmp_path: Path, room: Room
) -> None:
    with Valkey() as own_valkey:
        sites = await asyncio.to_thread(lambda: [Web(tmp_path, layer=own_valkey.url) for _ in range(2)])
        try:
            for each in sites:
                await asyncio.to_thread(each.ready)
            sender, watcher = room.client(), room.client()
            await sender.connect(sites[0])
            await watcher.connect(sites[1])
            assert own_valkey._process is not None
            for what in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL):
                os.kill(own_valkey._process.pid, what)
                async with Stopwatch() as turn:
                    sent = await sender.ask(
                        "send", text=wish([{"tool_call": {"name": "look", "arguments": {"n": 1}}}], "ok")
                    )
                    for client in (sender, watcher):
                        await client.until_run_ends(sent["run"])
                assert turn.within(8)
            said = stored(await in_database(reads.messages, room.key))
            assert sender.transcript.said == watcher.transcript.said == said
            assert len(said) == 12
        finally:
            for each in sites:
                await asyncio.to_thread(each.stop)
