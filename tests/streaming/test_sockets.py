"""The socket itself: who may open it, how long it stays, and what it does with nonsense."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.sessions.backends.db import SessionStore
from websockets.exceptions import ConnectionClosed

from criogen_threads.engine.pools import in_database
from tests.streaming.client import Client
from tests.streaming.conftest import begin, person
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, log_in, web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.streaming.conftest import Room

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def hasty(committed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A process that looks at sessions every half second and closes sockets that are silent for two."""
    options = {"RECHECK_SECONDS": 0.5, "SOCKET_SECONDS": 2, "ALLOWED_ORIGINS": ["https://friend.example"]}
    with web(tmp_path_factory.mktemp("web"), **options) as (process,):
        yield process


async def refusal(client: Client) -> tuple[str, int | None]:
    """The error frame and the close code of a socket that is being closed."""
    code = ""
    with pytest.raises(ConnectionClosed):
        while True:
            frame = await client.read()
            code = frame.get("code", code)
    return code, client.close_code


async def test_f49_sockets_from_other_origins_are_refused_and_the_reason_is_logged(hasty: Web, room: Room) -> None:
    own, friend = f"http://127.0.0.1:{hasty.port}", "https://friend.example"
    for origin in (None, own, friend):
        client = room.client()
        assert (await client.connect(hasty, origin=origin))["type"] == "subscribed"
    for origin in (
        "https://evil.example",
        "null",
        f"http://127.0.0.1:{hasty.port + 1}",
        "http://127.0.0.1.evil.example",
    ):
        client = room.client()
        await client.open(hasty, origin=origin)
        assert await refusal(client) == ("origin_refused", 4403)
    assert "https://evil.example" in hasty.log.read_text()


async def test_who_may_open_a_socket(hasty: Web, room: Room) -> None:
    anonymous, stranger = room.client(""), room.client(await in_database(lambda: log_in(person())))
    await anonymous.open(hasty)
    assert await refusal(anonymous) == ("not_authenticated", 4401)
    await stranger.open(hasty)
    assert await refusal(stranger) == ("thread_not_found", 4404)
    bad = Client("a%20b", room.session)
    await bad.open(hasty)
    assert await refusal(bad) == ("invalid_thread_id", 4404)


async def test_f50_a_log_out_ends_the_socket_at_the_next_change(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    await in_database(SessionStore(room.session).delete)
    await client.say(type="send", id=1, text="still there?")
    assert await refusal(client) == ("not_authenticated", 4401)
    assert await room.handle(actor=None).runs() == []


@pytest.mark.parametrize("how", ["log out", "deactivate", "change the password", "delete"])
async def test_a_reading_socket_ends_soon_after_its_session(hasty: Web, room: Room, how: str) -> None:
    client = room.client()
    await client.connect(hasty)

    def end() -> None:
        if how == "log out":
            SessionStore(room.session).delete()
        elif how == "deactivate":
            room.owner.is_active = False
            room.owner.save()
        elif how == "change the password":
            room.owner.set_password("another")
            room.owner.save()
        else:
            room.owner.delete()

    await in_database(end)
    code, close = await asyncio.wait_for(refusal(client), 20)
    assert (code, close) == ("not_authenticated", 4401)


async def test_a_permission_that_is_taken_away_ends_the_socket(hasty: Web, room: Room) -> None:
    staff = await in_database(lambda: person(is_staff=True))
    permission = await in_database(lambda: Permission.objects.get(codename="view_transcript"))
    await in_database(staff.user_permissions.add, permission)
    client = room.client(await in_database(log_in, staff))
    await client.connect(hasty)
    assert (await client.ask("send", text="hello"))["code"] == "permission_denied"
    await in_database(staff.user_permissions.clear)
    assert await asyncio.wait_for(refusal(client), 20) == ("thread_not_found", 4404)


async def test_a_silent_peer_is_closed_and_one_that_answers_pings_is_not(hasty: Web, room: Room) -> None:
    silent, lively = room.client(), room.client()
    await silent.connect(hasty)
    await lively.connect(hasty)

    async def mute() -> int | None:
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await silent._socket.recv()
        return closed.value.rcvd.code if closed.value.rcvd else None

    closing = asyncio.create_task(mute())
    while not closing.done():
        await lively.read()
    assert closing.result() == 4408
    assert (await lively.ask("ping"))["type"] == "pong"


NONSENSE: list[Any] = [
    b"\x00\xff",
    b"{}",
    "",
    "nothing",
    "{",
    "[]",
    "[1]",
    "1",
    "-1e999",
    "NaN",
    '{"type": NaN}',
    '"text"',
    "null",
    "true",
    "{}",
    '{"type": null}',
    '{"type": 1}',
    '{"type": []}',
    '{"type": {}}',
    '{"type": "constructor"}',
    '{"type": "__init__"}',
    '{"type": "send"}',
    '{"type": "send", "text": 1}',
    '{"type": "send", "text": ""}',
    '{"type": "send", "text": "\\ud800"}',
    '{"type": "send", "content": []}',
    '{"type": "send", "content": [1]}',
    '{"type": "send", "content": [{"text": []}]}',
    '{"type": "send", "text": "x", "on_busy": "never"}',
    '{"type": "send", "text": "x", "on_busy": 1}',
    '{"type": "send", "text": "x", "client_id": ""}',
    '{"type": "send", "text": "x", "client_id": "\\u0000"}',
    '{"type": "send", "text": "x", "locale": "../.."}',
    '{"type": "send", "text": "x", "checkpoint": "x"}',
    '{"type": "answer"}',
    '{"type": "answer", "decisions": {}}',
    '{"type": "answer", "decisions": {"x": true}}',
    '{"type": "answer", "decisions": [true]}',
    '{"type": "cancel"}',
    '{"type": "cancel", "run": 1}',
    '{"type": "rewind"}',
    '{"type": "rewind", "checkpoint": "x"}',
    '{"type": "rewind", "checkpoint": {}}',
    '{"type": "ack"}',
    '{"type": "ack", "page": 10}',
    '{"type": "ack", "page": "1"}',
    '{"type": "ack", "page": true}',
    '{"type": "retry", "id": "\\ud800"}',
    '{"type": "subscribe", "after": -1}',
    '{"type": "subscribe", "after": 1e9}',
    '{"type": "subscribe", "epoch": 1}',
    '{"type": "subscribe", "message": {}}',
    '{"type": "subscribe", "offset": "1"}',
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 100_000 + "1" + "}" * 100_000,
    '{"type": "send", "text": ' + "9" * 5000 + "}",
]


def mutated(seed: int) -> Any:
    """A frame that is nearly one."""
    chance = random.Random(seed)
    frame = chance.choice([each for each in NONSENSE if isinstance(each, str) and 0 < len(each) < 300])
    position = chance.randrange(len(frame))
    change = chance.choice(["", "\x00", '"', "{", "]", "💥", "\\u", "null", "1e400", frame])
    return frame[:position] + change + frame[position + chance.randrange(3) :]


async def test_f47_no_frame_kills_the_socket(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    client.transcript.apply = lambda frame: None  # type: ignore[method-assign]  # some of it is no nonsense
    inputs = [*NONSENSE, *map(mutated, range(2000))]
    for start in range(0, len(inputs), 40):
        for each in inputs[start : start + 40]:
            await client.raw(each)
        assert (await client.ask("ping"))["type"] == "pong"
    refused = [frame for frame in client.frames if frame.get("type") == "error"]
    assert len(refused) > len(inputs) * 0.9
    assert "internal_error" not in {frame["code"] for frame in refused}
    assert "Traceback" not in site[0].log.read_text()


async def test_a_frame_over_a_megabyte_closes_the_socket(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    await client.raw(json.dumps({"type": "send", "text": "x" * 1024 * 1024}))
    with pytest.raises(ConnectionClosed):  # by the server, or by the consumer with an error frame
        while True:
            await client.read()
    await client.connect(site[0])
    assert await room.handle(actor=None).runs() == []


async def test_every_frame_is_answered_under_its_id(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    assert await client.ask("hello") == {"type": "hello", "id": 2, "protocol": "1.0", "thread": room.key}
    assert await client.ask("ping") == {"type": "pong", "id": 3}
    sent = await client.ask("send", text=wish("hi"))
    assert (sent["type"], sent["of"]) == ("ack", "send")
    assert (await client.ask("nonsense"))["code"] == "frame_invalid"


async def test_another_epoch_or_an_unknown_place_is_told_to_begin_anew(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    sent = await client.ask("send", text=wish("hi"))
    await client.until_run_ends(sent["run"])
    for place in ({"after": 999}, {"epoch": str(room.owner.pk), "after": 1}):
        answer = await client.ask("subscribe", **{**client.transcript.place(), **place})
        assert (answer["type"], answer["epoch"]) == ("resync", client.transcript.epoch)
    first = client.transcript.epoch
    await client.subscribe()
    assert await room.handle(actor=None).delete()
    await client.until(lambda: client.frames[-1] == {"type": "resync", "epoch": None})
    assert (await client.subscribe())["state"] == "absent"
    assert (await client.ask("send", text="hi"))["code"] == "thread_not_found"  # not without a ticket
    await in_database(begin, room)
    await client.until(lambda: client.transcript.epoch not in (None, first))
    sent = await client.ask("send", text=wish("again"))
    await client.until_run_ends(sent["run"])
    assert [text for role, text, _ in client.transcript.said if role == "assistant"] == ["again"]


async def test_a_client_that_reads_nothing_costs_a_bounded_amount(site: list[Web], room: Room) -> None:
    client, deaf = room.client(), room.client()
    await client.connect(site[0])
    for _ in range(4):
        sent = await client.ask("send", text=wish("x" * 700_000, chunk=100_000))
        await client.until_run_ends(sent["run"])
    await deaf.open(site[1])
    await deaf.say(type="subscribe", epoch=client.transcript.epoch, after=0)
    got, pages = 0, []
    while not pages:
        text = await asyncio.wait_for(deaf._socket.recv(), 10)
        got += len(text)
        frame = json.loads(text)
        pages += [frame["page"]] if frame.get("type") == "page" else []
    with pytest.raises(TimeoutError):
        while True:  # nothing but pings until the page is acknowledged
            got += len(await asyncio.wait_for(deaf._socket.recv(), 3))
    assert 256 * 1024 <= got < 2 * 1024 * 1024
    await deaf.say(type="ack", page=pages[-1])
    assert json.loads(await asyncio.wait_for(deaf._socket.recv(), 10))["seq"] is not None
