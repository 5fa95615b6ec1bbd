"""The feed for clients that poll."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming import polling
from criogen_threads.streaming.feed import Feed
from criogen_threads.streaming.parts import ARGUMENTS, TEXT
from criogen_threads.streaming.polling import Place
from criogen_threads.streaming.wires import Open
from tests.streaming.conftest import person
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, cookie, log_in
from tests.streaming.transcript import Transcript, stored

if TYPE_CHECKING:
    from criogen_threads.streaming.showing import Viewer
    from tests.streaming.conftest import Room

pytestmark = pytest.mark.django_db(transaction=True)

WIPE = {"tool_call": {"name": "wipe", "arguments": {"name": "logs"}}}


class Poller:
    """Somebody who looks again and again, and keeps a transcript."""

    def __init__(self, room: Room, session: str | None = None, query: str = "") -> None:
        self.session = room.session if session is None else session
        self.next = f"/api/threads/{room.key}/feed/?{query}"
        self.transcript = Transcript()
        self.frames: list[dict[str, Any]] = []
        self.polls = 0

    async def poll(self, web: Web, wait: float = 0) -> dict[str, Any]:
        page = await asyncio.to_thread(self._get, web, wait)
        self.polls += 1
        self.next = re.sub("wait=[0-9.]+&", "", page["next"].partition(f":{web.port}")[2])
        if page["resync"]:
            self.transcript = Transcript()
        for frame in page["results"]:
            self.frames.append(frame)
            self.transcript.apply(frame)
        return page

    def _get(self, web: Web, wait: float) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=40)
        connection.request("GET", f"{self.next}&wait={wait}", headers=cookie(self.session))
        response = connection.getresponse()
        body = json.loads(response.read())
        connection.close()
        assert response.status == 200, body
        return body

    async def until_run_ends(self, webs: list[Web], run: str, wait: float = 0, outcome: str = "success") -> None:
        deadline = time.monotonic() + 30
        while self.transcript.ended.get(run) not in (outcome, "thread_interrupted"):
            assert time.monotonic() < deadline
            await self.poll(webs[self.polls % len(webs)], wait)


@pytest.mark.parametrize("wait", [0, 5])
async def test_who_polls_ends_with_the_transcript_of_the_database(site: list[Web], room: Room, wait: float) -> None:
    client, poller = room.client(), Poller(room, query="html=1")
    await client.connect(site[0])
    look = {"tool_call": {"name": "look", "arguments": {"n": 1}}}
    text = wish([{"reasoning": "hm"}, {"text": "Zwölf 👩‍👩‍👧 *Boxkämpfer*. " * 60}, look], "Done. " * 60, delay=0.01)
    sent = await client.ask("send", text=text)
    began = time.monotonic()
    await poller.until_run_ends(site, sent["run"], wait)
    took = time.monotonic() - began
    said = stored(await in_database(reads.messages, room.key))
    assert poller.transcript.said == said
    assert len(said) == 4
    live = [frame for frame in poller.frames if frame["seq"] is None and "message" in frame]
    assert live, "the answer under way is told, too"
    assert {frame["agent"] for frame in live} == {"puppet"}
    assert any("<em>" in str(frame.get("html")) for frame in poller.frames)
    if wait:
        assert poller.polls < took / polling.GATHER_SECONDS + 5, "who waits asks seldom"
    page = await poller.poll(site[1])
    assert (page["results"], page["state"], page["run"]["status"]) == ([], "idle", "completed")
    assert page["seq"] == page["after"]


async def test_a_poll_that_waits_hears_of_what_comes(site: list[Web], room: Room) -> None:
    client, poller = room.client(), Poller(room)
    await client.connect(site[0])
    assert (await poller.poll(site[1]))["results"] == []
    waiting = asyncio.create_task(poller.poll(site[1], wait=20))
    began = time.monotonic()
    sent = await client.ask("send", text=wish("hello"))
    assert (await waiting)["results"]
    assert time.monotonic() - began < 19, "it did not wait to the end"
    await poller.until_run_ends(site, sent["run"], 5)


async def test_what_waits_and_what_stands_in_line_is_told_once_and_shown_always(site: list[Web], room: Room) -> None:
    client, poller = room.client(), Poller(room)
    await client.connect(site[0])
    sent = await client.ask("send", text=wish([WIPE], "done"))
    await client.until(lambda: client.transcript.state == "suspended")
    await poller.poll(site[1])
    told = [frame for frame in poller.frames if frame.get("state") == "suspended"]
    page = await poller.poll(site[1])
    assert len(told) == 1
    assert page["results"] == []
    assert page["state"] == "suspended"
    [waits] = page["pending"]
    assert (waits["name"], waits["mine"], page["run"]["id"]) == ("wipe", False, sent["run"])
    await client.ask("cancel", run=sent["run"])
    await poller.until_run_ends(site, sent["run"], outcome="cancelled")


async def test_another_epoch_is_told_from_its_beginning(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    sent = await client.ask("send", text=wish("hello"))
    await client.until_run_ends(sent["run"])
    for query in ("epoch=00000000-0000-0000-0000-000000000000&after=3", "after=999"):
        poller = Poller(room, query=query)
        assert (await poller.poll(site[1]))["resync"] is True
        assert poller.transcript.said == client.transcript.said
    page = await Poller(room, query=f"epoch={client.transcript.epoch}&after={client.transcript.seq}").poll(site[1])
    assert (page["resync"], page["results"]) == (False, [])


async def test_a_poll_shows_what_this_person_may_see(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    calls = [{"tool_call": {"name": name, "arguments": {"what": "w"}}} for name in ("inspect", "rate")]
    sent = await client.ask("send", text=wish(calls, "done"))
    await client.until_run_ends(sent["run"])
    staff = await in_database(lambda: log_in(person(is_staff=True, is_superuser=True)))
    for session, seen in ((room.session, False), (staff, True)):
        poller = Poller(room, session)
        await poller.poll(site[1])
        shown = str([frame for frame in poller.frames if "behind" not in str(frame.get("client_id"))])
        assert ("behind the curtain" in shown) == seen
        assert ("rated: w" in shown) == seen


def test_the_place_in_a_half_answer_of_many_parts_fits_into_an_address() -> None:
    feed = Feed("key", cast("Viewer", None))
    message = str(uuid4())
    feed.open = Open(message=message, parts={f"{message}:{n}": (ARGUMENTS, 10_000) for n in range(50)})
    place = polling._place(feed)
    assert Place.of(place.text()) == place
    feed.open.parts[message] = (TEXT, 10_000)
    place = polling._place(feed)
    assert (place.message, place.parts, place.html_end) == (message, {}, 0)
    assert Place.of(place.text()) == place
