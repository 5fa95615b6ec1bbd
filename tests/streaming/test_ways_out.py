"""Everybody against the stream, the poll and AG-UI; and what of each tool leaves by every door of the feed."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import TYPE_CHECKING

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.test import RequestFactory

from criogen_threads import tickets
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Thread, ToolCall
from criogen_threads.redaction import MASK
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, cookie
from tests.streaming.test_agui import ask, body
from tests.streaming.test_permissions import WHO, session_of

if TYPE_CHECKING:
    from tests.streaming.client import Client
    from tests.streaming.conftest import Room

pytestmark = pytest.mark.django_db(transaction=True)

WIPE = {"tool_call": {"name": "wipe", "arguments": {"name": "logs"}}}

TABLE: dict[str, tuple[int, ...]] = {  # the thread waits for an approval of staff
    "stream": (401, 404, 200, 200, 200, 200),
    "stream from its end": (401, 404, 200, 200, 200, 200),
    "stream of nothing": (401, 404, 404, 404, 404, 404),
    "poll": (401, 404, 200, 200, 200, 200),
    "say": (401, 404, 409, 403, 403, 403),
    "resume": (401, 404, 403, 403, 200, 200),
    "join": (401, 404, 200, 200, 200, 200),
    "begin": (401, 404, 404, 404, 404, 404),  # nobody chooses a key
    "begin by the owner's ticket": (401, 403, 200, 403, 403, 403),
    "speak to another agent": (401, 404, 404, 404, 404, 404),
}


def get(web: Web, path: str, session: str, most: int = 0, **headers: str) -> tuple[int, str]:
    """The status and the body; of a stream that does not end so many lines."""
    asking = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
    asking.request("GET", path, headers={**(cookie(session) if session else {}), **headers})
    response = asking.getresponse()
    text = "".join(response.readline().decode() for _ in range(most)) if most else response.read().decode()
    asking.close()
    return response.status, text


async def outcome(way: str, web: Web, room: Room, session: str) -> int:
    if way.startswith("stream"):
        path = f"/api/threads/{'nothing' if 'nothing' in way else room.key}/events/"
        place = {"Last-Event-ID": await in_database(end_of, room)} if "end" in way else {}
        return (await asyncio.to_thread(get, web, path, session, most=1, Accept="text/event-stream", **place))[0]
    if way == "poll":
        return (await asyncio.to_thread(get, web, f"/api/threads/{room.key}/feed/", session))[0]
    call = await in_database(lambda: ToolCall.objects.filter(thread__key=room.key).latest("created_at"))
    answer = [{"interruptId": str(call.pk), "status": "resolved", "payload": {"approve": True}}]
    new_key = f"new-{call.pk}"
    ticket = await in_database(ticket_of, room, new_key)
    given = {
        "say": lambda: body(room.key, "hello"),
        "resume": lambda: body(room.key, resume=answer),
        "join": lambda: body(room.key),
        "begin": lambda: body("nothing", "hello"),
        "begin by the owner's ticket": lambda: body(new_key, "hello", forwardedProps={"ticket": ticket}),
        "speak to another agent": lambda: body(room.key, "hello"),
    }[way]()
    return (await ask(web, given, session, agent="other" if "another" in way else "puppet"))[0]


def end_of(room: Room) -> str:
    """Where a client stands that has everything."""
    thread = Thread.objects.get(key=room.key)
    return f"{thread.pk}:{thread.event_seq}"


def ticket_of(room: Room, key: str) -> str:
    """The owner's ticket for a key that nobody has."""
    request = RequestFactory().get("/")
    request.user, request.session = room.owner, SessionStore(room.session)
    return tickets.sign(request, key, "puppet")


@pytest.mark.parametrize("way", TABLE)
async def test_who_may_watch_and_answer_by_every_other_door(site: list[Web], room: Room, way: str) -> None:
    owner = room.client()
    await owner.connect(site[0])
    found = []
    for who in WHO:
        sent = await owner.ask("send", text=wish([WIPE], "done"))
        await owner.until(lambda: owner.transcript.state == "suspended" and owner.transcript.pending)
        found.append(await outcome(way, site[1], room, await session_of(who, room)))
        await owner.ask("cancel", run=sent["run"])
        settled = ("cancelled", "success") if way == "resume" and found[-1] == 200 else ("cancelled",)
        await owner.until(lambda run=sent["run"], ends=settled: owner.transcript.ended.get(run) in ends)
        owner.transcript.state = ""
    assert tuple(found) == TABLE[way]


def has_ended(client: Client) -> bool:
    return [text for _, text, _ in client.transcript.said[-1:]] == ["Done."]


def hidden_in(text: str, *words: str) -> str:
    """The same JSON, in which these words do not stand: the user's message must not give the game away."""
    for word in words:
        text = text.replace(word, "".join(f"\\u{ord(character):04x}" for character in word))
    return text


TOLD = {  # what stands in a shown call or result, and who is shown it
    "number 7: ": {"owner", "viewing staff"},  # a result of "look"
    "zebra-1": {"viewing staff"},  # an argument of "rate", of which only the name is shown
    "rated: zebra-1": {"viewing staff"},
    "zebra-2": {"viewing staff"},  # of "inspect", which is staff's
    "behind the curtain: zebra-2": {"viewing staff"},
    "4111-1111": set(),  # a secret of "pay"
    MASK: {"owner", "viewing staff"},
    '"rate"': {"owner", "viewing staff"},
    '"inspect"': {"viewing staff"},
}


@pytest.mark.parametrize("who", ["owner", "viewing staff"])
async def test_every_visibility_and_secret_by_every_door(site: list[Web], room: Room, who: str) -> None:
    calls = [
        {"tool_call": {"name": name, "arguments": arguments}}
        for name, arguments in (
            ("look", {"n": 7}), ("rate", {"what": "zebra-1"}), ("inspect", {"what": "zebra-2"}),
            ("pay", {"amount": 5, "card": "4111-1111"}),
        )
    ]  # fmt: skip
    owner, session = room.client(), await session_of(who, room)
    live = room.client(session)
    await owner.connect(site[0])
    await live.connect(site[1])
    text = hidden_in(wish(calls, "Done."), "zebra", "4111-1111", "inspect", "rate")
    sent = await owner.ask("send", text=text)
    await owner.until(lambda: owner.transcript.pending)
    waiting = await asyncio.to_thread(get, site[1], f"/api/threads/{room.key}/feed/", session)
    await owner.ask("answer", decisions={owner.transcript.pending[0]["id"]: True})
    for client in (owner, live):
        await client.until(lambda client=client: has_ended(client))
        await client.until_run_ends(sent["run"])
    late = room.client(session)
    await late.connect(site[0])
    await late.until(lambda: has_ended(late))
    path = f"/api/threads/{room.key}"
    stream = await asyncio.to_thread(get, site[0], f"{path}/events/", session, Accept="text/event-stream")
    polled = await asyncio.to_thread(get, site[1], f"{path}/feed/", session)
    _, joined = await ask(site[0], body(room.key), session)
    doors = {
        "live": json.dumps(live.frames), "replayed": json.dumps(late.frames), "stream": stream[1], "poll": polled[1],
        "waiting": waiting[1], "AG-UI": json.dumps(joined),
    }  # fmt: skip
    for door, shown in doors.items():
        for word, audience in TOLD.items():
            if door == "waiting" and word != "4111-1111":
                continue  # not everything was said then
            expected = who in audience
            assert (word.lower() in shown.lower()) == expected, f"{word!r} for the {who} by {door}"
