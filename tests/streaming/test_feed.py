"""The feed over real sockets: one process without a layer, and two with Valkey between them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from tests.streaming.puppet import wish
from tests.streaming.transcript import stored

if TYPE_CHECKING:
    from tests.streaming.conftest import Room
    from tests.streaming.servers import Web

pytestmark = pytest.mark.django_db(transaction=True)

LONG = "Zwölf Boxkämpfer 👩‍👩‍👧 jagen Viktor quer über den großen Sylter Deich. " * 12


async def test_c6_a_turn_sent_through_one_process_is_watched_through_the_other(site: list[Web], room: Room) -> None:
    sender, watcher = room.client(), room.client()
    subscribed = await watcher.connect(site[1])
    assert (subscribed["state"], subscribed["seq"]) == ("idle", 0)
    await sender.connect(site[0])
    text = wish([{"reasoning": "hm"}, {"text": LONG}, {"tool_call": {"name": "look", "arguments": {"n": 1}}}], "Done.")
    sent = await sender.ask("send", text=text, client_id="one")
    assert sent["type"] == "ack"
    for client in (watcher, sender):
        await client.until_run_ends(sent["run"])
    said = stored(await in_database(reads.messages, room.key))
    assert watcher.transcript.said == sender.transcript.said == said
    assert [role for role, *_ in said] == ["user", "assistant", "tool", "assistant"]
    live = [frame for frame in watcher.frames if "type" not in frame and frame["seq"] is None and "message" in frame]
    assert len(live) >= 4, "it was not streamed"
    started = next(frame for frame in watcher.frames if frame.get("events", [{}])[0].get("type") == "RUN_STARTED")
    assert started["client_id"] == "one"
    await asyncio.gather(sender.close(), watcher.close())


async def test_html_comes_with_the_answer_and_block_by_block_while_it_streams(site: list[Web], room: Room) -> None:
    client, plain = room.client(), room.client()
    await client.connect(site[1], html=True)
    await plain.connect(site[1])
    text = "# Head\n\n" + "Some *text* <script>alert(1)</script>.\n\n" * 20 + "![x](https://evil.example/q)"
    sent = await client.ask("send", text=wish(text, delay=0.01, chunk=40))
    for each in (client, plain):
        await each.until_run_ends(sent["run"])
    blocks = [frame for frame in client.frames if isinstance(frame.get("html"), str) and frame.get("seq", 0) is None]
    (final,) = [frame for frame in client.frames if isinstance(frame.get("html"), str) and frame.get("seq")]
    assert blocks, "nothing was rendered while it streamed"
    assert [frame["offset"] for frame in blocks] == [0, *[frame["end"] for frame in blocks[:-1]]]
    assert '<h1 dir="auto">Head</h1>' in final["html"]
    assert "<script" not in final["html"]
    assert "<img" not in final["html"]
    assert not any("html" in frame for frame in plain.frames)
