"""A hostile client of a real server: no 500, no hang, nothing of another's, and the next request is served."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from criogen_threads.engine.pools import in_database
from criogen_threads.models import ToolCall
from tests.api.test_access import TABLE
from tests.streaming.conftest import Room, begin, person
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, cookie, log_in, web
from tests.streaming.test_agui import body, headers

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 30


@pytest.fixture(scope="module")
def server(committed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web(tmp_path_factory.mktemp("web")) as (process,):
        yield process


@pytest.fixture
def other(room: Room) -> Room:
    """Another user's conversation, in which an approval waits."""
    made = Room()
    begin(made)
    text = wish([{"tool_call": {"name": "pay", "arguments": {"amount": 7}}}], "the secret of another")
    made.handle().send_sync(text)
    return made


def asked(web: Web, method: str, path: str, sent: bytes = b"", **extra: str) -> tuple[int, bytes]:
    """The status and the beginning of the body."""
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in {"Content-Length": str(len(sent)), **extra}.items():
            connection.putheader(name, value.encode("utf-8", "surrogateescape"))
        connection.endheaders(sent)
        response = connection.getresponse()
        return response.status, response.read(20_000)
    finally:
        connection.close()


def is_well(web: Web, room: Room) -> None:
    """The server answers, and has met nothing that it did not expect."""
    assert asked(web, "GET", f"/api/threads/{room.key}/", **cookie(room.session))[0] == 200
    log = web.log.read_text()
    assert "Traceback" not in log, log[-3000:]


def paths(room: Room, run: str) -> list[str]:
    found = {each.partition(" ")[2].format(key=room.key, id=run) for each in TABLE}
    return sorted({f"/api/{path}" for path in found} | {"/api/agui/puppet/", f"/stream/{room.key}/"})


def test_odd_methods_types_and_bodies(server: Web, room: Room) -> None:
    own = headers(room.session)
    kinds = [
        "application/json", "application/json; charset=utf-16", "application/json; charset=nonsense", "text/plain", "",
        "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "\udcff\udcfe/json", "a" * 5000,
    ]  # fmt: skip
    bodies = [
        b"",
        b"{",
        b"null",
        b'"x"',
        b"\x00" * 100,
        b"\xff\xfe{",
        b"--x\r\nContent-Disposition: form-data",
        b"[" * 9,
    ]
    for number, path in enumerate(paths(room, str(uuid4()))):
        for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW", "POST"):
            kind, sent = kinds[number % len(kinds)], bodies[(number + len(method)) % len(bodies)]
            if method == "DELETE" and path.endswith(f"threads/{room.key}/"):
                continue  # it would be gone
            status, said = asked(server, method, path, sent, **{**own, "Content-Type": kind})
            assert status < 500, (method, path, kind, sent, said)
    is_well(server, room)


def test_odd_headers_and_queries(server: Web, room: Room) -> None:
    own = headers(room.session)
    for name, value in (
        ("Last-Event-ID", ":"), ("Last-Event-ID", "::"), ("Last-Event-ID", "x:1"), ("Last-Event-ID", "9" * 200),
        ("Last-Event-ID", f"{uuid4()}:-1"), ("Last-Event-ID", "\udcff:1"), ("Last-Event-ID", "x" * 8000 + ":1"),
        ("Last-Event-ID", "٣:٣"), ("Idempotency-Key", "\udcff" * 40), ("Idempotency-Key", "k" * 9000),
        ("Accept", "text/event-stream;q=x, */*;q=nan"), ("Accept", ",;,/" * 500), ("Accept-Language", "\udcff;q=" * 99),
        ("Authorization", "Basic !!!"), ("Authorization", "Basic " + "A" * 4000),
        ("X-Forwarded-For", "\udcff,,,1.2.3"), ("Origin", "https://evil.example"),
        ("If-None-Match", '"' * 3000), ("Range", "bytes=0-1"), ("Content-Encoding", "gzip"), ("Expect", "200-ok"),
        ("Cookie", "sessionid=" + "x" * 6000), ("Cookie", ";=;" * 1000),
    ):  # fmt: skip
        for path, accept in ((f"/api/threads/{room.key}/events/", "text/event-stream"), ("/api/threads/", "*/*")):
            status, said = asked(server, "GET", path, **{**own, "Accept": accept, name: value})
            assert status < 500, (name, value[:50], path, said)
    for query in (
        "wait=1e9", "wait=inf", "wait=0x1", "limit=9e9", "limit=-1", "after=1.5", "before=x", "html=2", "cursor=",
        "cursor=%00", "epoch=%ff", "after=" + "9" * 400, "metadata=%ff", "status[]=x", "&" * 900,
    ):  # fmt: skip
        for path in paths(room, "x"):
            if "/stream/" not in path:
                status, said = asked(server, "GET", f"{path}?{query}", **own)
                assert status < 500, (path, query, said)


def place(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def test_places_that_were_tampered_with(server: Web, room: Room, other: Room) -> None:
    message, epoch = str(uuid4()), str(uuid4())
    for text in (
        place(), place(None), place(epoch, 1, None, [], 0, []),
        place(None, 0, message, [[message, "text", 5]], 10**9, []),
        place(None, 0, message, [[message, "text", -1]], 0, []), place(None, 0, message, [[[], "text", 1]], 0, []),
        place(None, 0, message, [[message, "nothing", 1]], 0, []),
        place(None, 0, "x" * 2000, [], 0, ["suspended", "", 1]),
        place(None, 0, message, [[message, [], 1]], 0, []), place(None, 2**61, None, [], 0, []),
        place(None, True, None, [], 0, []), place(None, 0, None, [], 0, [[1]]), place({}, 0, None, [], 0, []),
        place(None, 0, message, [[f"{message}:{n}", "arguments", 1] for n in range(60)], 0, []),
        place(None, 0, message, [[f"{message}:reasoning", "reasoning", 99]], 0, [None, "\ud800", 1]),
        "e30", "bnVsbA", "%FF%FE", "A", "=" * 50, "W1tb" * 500,
    ):  # fmt: skip
        path = f"/api/threads/{room.key}/feed/?cursor={text}"
        status, said = asked(server, "GET", path, **cookie(room.session))
        assert status in (200, 400), (text, said)
        status, said = asked(server, "GET", path.replace(room.key, other.key), **cookie(room.session))
        assert status in (400, 404)
        assert b"secret" not in said
    is_well(server, room)


def test_ag_ui_inputs_that_are_none(server: Web, room: Room, other: Room) -> None:
    theirs = str(ToolCall.objects.get(thread__key=other.key).pk)
    own = {"id": "1", "role": "user", "content": "hi"}
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    for given in (
        body(other.key, "hi"), body(other.key),
        body(other.key, resume=[{"interruptId": theirs, "status": "cancelled"}]),
        body(room.key, resume=[{"interruptId": theirs, "status": "resolved", "payload": {"approve": True}}]),
        body(room.key, resume=[{"interruptId": theirs, "status": "cancelled"}] * 2000),
        *(body(room.key, resume=[{"interruptId": theirs, "status": "resolved", "payload": payload}])
          for payload in (1, "x", [], {"approve": "yes"}, {"approve": True, "arguments": 5}, {"": {}}, deep)),
        body(room.key, resume=[{"interruptId": "\x00\ud800", "status": "cancelled"}]),
        *(body(room.key, "hi", run=run) for run in ("\x00", "\ud800", "r" * 5000, "")),
        body(room.key, messages=[own] * 3000 + [{**own, "content": ""}]),
        body(room.key, messages=[{**own, "content": [{"type": "text", "text": "\ud800"}]}]),
        body(room.key, messages=[{**own, "content": [{"type": "binary", "mimeType": "a/b", "data": "x"}]}]),
        body(room.key, "hi", forwardedProps=deep, state=deep, context=[{}]),
        body("new", "hi", forwardedProps={"ticket": {"a": deep}}),
        body("new", "hi", forwardedProps={"ticket": "a:b:c"}),
        *({**body(room.key), "threadId": key} for key in ("", "..", "a/b", "\x00", "x" * 5000, 5, None, deep)),
    ):  # fmt: skip
        sent = json.dumps(given).encode()
        status, said = asked(server, "POST", "/api/agui/puppet/", sent, **headers(room.session))
        assert status < 500, (str(given)[:200], said)
        assert b"secret" not in said
    status, _ = asked(server, "POST", "/api/agui/puppet/", b" " * (5 * 2**20), **headers(room.session))
    assert status in (400, 413)
    assert ToolCall.objects.get(pk=theirs).status == "awaiting_approval"
    is_well(server, room)


def test_half_open_and_broken_connections_hold_nobody_up(server: Web, room: Room) -> None:
    own = "".join(f"{name}: {value}\r\n" for name, value in headers(room.session).items())
    begun = [
        b"GET / HT", b"POST /api/threads/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
        b"POST /api/threads/ HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/threads/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"GET /api/threads/ HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000, b"\x16\x03\x01\x02\x00" * 50, b"\r\n" * 1000,
        f"GET /stream/{room.key}/ HTTP/1.1\r\nHost: 127.0.0.1\r\n{own}\r\n".encode(),
        f"GET /ws/threads/{room.key}/ HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n{own}\r\n".encode(),
        f"POST /api/agui/puppet/ HTTP/1.1\r\nHost: 127.0.0.1\r\n{own}Content-Length: 50\r\n\r\n{{".encode(),
    ]  # fmt: skip
    held = []
    for data in begun * 6:
        held.append(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
        with suppress(OSError):
            held[-1].sendall(data)
    is_well(server, room)
    for each in held:
        each.close()
    is_well(server, room)


async def test_frames_in_a_wrong_order_and_of_others(server: Web, room: Room, other: Room) -> None:
    theirs = await in_database(lambda: ToolCall.objects.get(thread__key=other.key))
    client = room.client()
    client.transcript.apply = lambda frame: None  # type: ignore[method-assign]  # it is told again and again
    await client.open(server)
    for frame, code in (
        ({"type": "ack", "page": 1}, "frame_invalid"),
        ({"type": "answer", "decisions": {str(theirs.pk): True}}, "resume_invalid"),
        ({"type": "cancel", "run": str(theirs.run_id)}, ""),
        ({"type": "rewind", "checkpoint": str(uuid4())}, "checkpoint_not_found"),
        ({"type": "retry"}, "resume_invalid"),
        ({"type": "send", "text": "x", "ticket": "a:b:c", "agent": "other"}, ""),
        ({"type": "subscribe", "epoch": "nonsense", "after": 0}, ""),
        ({"type": "subscribe", "message": str(theirs.message_id), "offset": 2**61}, ""),
        ({"type": "hello", "ticket": {"x": []}}, ""),
    ):
        answer = await client.ask(**frame)
        assert answer.get("code", "") == code, (frame, answer)
    await asyncio.gather(*(client.say(type="subscribe", after=0) for _ in range(200)))
    assert (await client.ask("ping"))["type"] == "pong"
    assert "secret" not in str(client.frames)
    await in_database(theirs.refresh_from_db)
    assert theirs.status == "awaiting_approval"
    await in_database(is_well, server, room)


async def test_handshakes_that_are_odd(server: Web, room: Room, other: Room) -> None:
    stranger = await in_database(lambda: log_in(person()))
    for session, key in (
        ('"\\000\\001aaaaaaaaaa"', room.key), ("x" * 6000, room.key), ("ü" * 50, room.key), (stranger, other.key),
        (room.session, other.key), (room.session, "%00"), (room.session, "x" * 3000),
    ):  # fmt: skip
        client = room.client(session)
        client.key = key
        try:
            await client.open(server)
            while True:
                assert (await client.read())["type"] == "error"
        except ConnectionClosed:
            assert client.close_code in (4401, 4404), (session, key)
    for origin in ("null", f"http://127.0.0.1:{server.port}@evil.example", f"http://127.0.0.1:{server.port}.evil.example",
                   f"HTTPS://EVIL.example/127.0.0.1:{server.port}", "http://[", "//"):  # fmt: skip
        client = room.client()
        try:
            await client.open(server, origin=origin)
            while True:
                assert (await client.read())["code"] == "origin_refused"
        except InvalidStatus as refused:
            assert refused.response.status_code == 400  # noqa: PT017 (by the server itself)
        except ConnectionClosed:
            assert client.close_code == 4403, origin
    await in_database(is_well, server, room)
