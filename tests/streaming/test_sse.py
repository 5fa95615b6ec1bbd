"""The feed as server-sent events."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.test import RequestFactory

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming import sse
from tests.streaming.conftest import person
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, cookie, log_in
from tests.streaming.transcript import Transcript, stored

if TYPE_CHECKING:
    from tests.streaming.conftest import Room

pytestmark = pytest.mark.django_db(transaction=True)


class Stream:
    """One response, read event by event."""

    def __init__(self, web: Web, path: str, session: str, last: str = "") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
        extra = {"Last-Event-ID": last} if last else {}
        self.connection.request("GET", path, headers={**cookie(session), "Accept-Encoding": "gzip", **extra})
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.last = last

    def events(self, most: int = 10_000) -> list[dict[str, Any]]:
        """The events until the stream ends, or so many."""
        found: list[dict[str, Any]] = []
        while len(found) < most and (line := self.response.readline().decode()):
            if line.startswith("data: "):
                found.append(json.loads(line[6:]))
            elif line.startswith("id: "):
                self.last = line[4:].strip()
        return found

    def body(self) -> bytes:
        """The whole of an answer that is no stream."""
        body = self.response.read()
        return gzip.decompress(body) if self.response.getheader("Content-Encoding") == "gzip" else body

    def close(self) -> None:
        self.response.close()
        self.connection.close()


async def test_f54_nothing_holds_the_stream_back(site: list[Web], room: Room) -> None:
    """GZipMiddleware is on in this site: an event arrives while the answer is still being given."""
    client = room.client()
    await client.connect(site[0])
    sent = await client.ask("send", text=wish("word " * 1000, delay=0.02, chunk=5))
    stream = await asyncio.to_thread(Stream, site[1], f"/stream/{room.key}/", room.session)
    assert stream.response.getheader("Content-Encoding") == "identity"
    assert stream.response.getheader("Content-Type") == "text/event-stream"
    live: list[dict[str, Any]] = []
    while not any(event["type"] == "TEXT_MESSAGE_CONTENT" and "word" in event["delta"][:6] for event in live):
        live += await asyncio.to_thread(stream.events, 1)
    assert (await client.ask("subscribe"))["state"] == "running"
    stream.close()
    await client.ask("cancel", run=sent["run"])
    await client.until_run_ends(sent["run"])


async def test_f52_a_stream_ends_with_the_run_and_a_finished_thread_answers_204(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    sent = await client.ask("send", text=wish([{"tool_call": {"name": "look", "arguments": {"n": 1}}}], "ok"))
    stream = await asyncio.to_thread(Stream, site[1], f"/stream/{room.key}/", room.session)
    events = await asyncio.to_thread(stream.events)
    stream.close()
    assert [event["type"] for event in events][-1] == "RUN_FINISHED"
    assert replayed(events) == stored(await in_database(reads.messages, room.key))
    await client.until_run_ends(sent["run"])
    again = await asyncio.to_thread(Stream, site[0], f"/stream/{room.key}/", room.session, stream.last)
    again.close()
    assert again.status == 204
    whole = await asyncio.to_thread(Stream, site[0], f"/stream/{room.key}/", room.session)
    assert replayed(await asyncio.to_thread(whole.events)) == stored(await in_database(reads.messages, room.key))
    behind = await asyncio.to_thread(Stream, site[0], f"/stream/{room.key}/?after=3", room.session)
    assert len(await asyncio.to_thread(behind.events)) < len(events)
    whole.close()
    behind.close()


def replayed(events: list[dict[str, Any]]) -> Any:
    """What a client that applies these events has."""
    transcript = Transcript()
    for event in events:
        transcript._apply(event, saved=True, frame={"run": event.get("runId")})
    return transcript.said


async def test_another_epoch_begins_anew(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    sent = await client.ask("send", text=wish("hello"))
    await client.until_run_ends(sent["run"])
    for last in ("00000000-0000-0000-0000-000000000000:1", f"{client.transcript.epoch}:99"):
        stream = await asyncio.to_thread(Stream, site[1], f"/stream/{room.key}/", room.session, last)
        first, *rest = await asyncio.to_thread(stream.events)
        stream.close()
        assert (first["name"], first["value"]) == ("criogen.resync", {"epoch": client.transcript.epoch})
        assert replayed(rest) == stored(await in_database(reads.messages, room.key))


async def test_who_may_read_a_stream(site: list[Web], room: Room) -> None:
    stranger = await in_database(lambda: log_in(person()))
    for session, path, last, status, code in (
        ("", room.key, "", 401, "not_authenticated"),
        (stranger, room.key, "", 404, "thread_not_found"),
        (room.session, "no-such", "", 404, "thread_not_found"),
        (room.session, room.key, "nonsense", 400, "invalid_option"),
        (room.session, room.key, "x:99999999999999999999", 400, "invalid_option"),
        (room.session, "a%20b", "", 400, "invalid_thread_id"),
    ):
        stream = await asyncio.to_thread(Stream, site[0], f"/stream/{path}/", session, last)
        assert stream.status == status
        assert json.loads(stream.body())["code"] == code
        stream.close()


async def test_under_wsgi_a_stream_is_refused(room: Room) -> None:
    response = await sse.events(RequestFactory().get("/"), room.key)
    assert response.status_code == 501
    assert json.loads(response.content)["code"] == "asgi_required"  # type: ignore[attr-defined]
