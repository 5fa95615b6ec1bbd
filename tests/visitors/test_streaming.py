"""Visitors at the websocket, the event stream and the AG-UI endpoint of a real web process."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from websockets.exceptions import ConnectionClosed

from criogen_threads import tickets, visitors
from criogen_threads.engine.journal import visiting
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Thread
from tests.streaming.client import Client
from tests.streaming.conftest import committed, person
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, web
from tests.streaming.test_agui import ask, body
from tests.streaming.test_sse import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper

__all__ = ["committed"]

pytestmark = pytest.mark.django_db(transaction=True)

LIMITS: dict[str, Any] = {
    "VISITOR_AGENTS": ["puppet"],
    "VISITOR_THREADS": 1000,
    "VISITOR_RUNS": 2,
    "RECHECK_SECONDS": 0.3,
}


@pytest.fixture(scope="module")
def site(committed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web(tmp_path_factory.mktemp("web"), **LIMITS) as [process]:
        yield process


@pytest.fixture(autouse=True)
def visitors_are_let_in(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = LIMITS


class Browser:
    """A session of somebody who has not signed in, and whose page has a ticket for a chat."""

    def __init__(self, key: str) -> None:
        self.request = HttpRequest()
        self.request.user = AnonymousUser()
        self.request.session = import_module(django_settings.SESSION_ENGINE).SessionStore()
        self.key = key
        self.ticket = tickets.sign(self.request, key, "puppet")
        self.request.session.save()
        self.session = str(self.request.session.session_key)

    def client(self, key: str = "") -> Client:
        return Client(key or self.key, self.session)


async def browser(key: str) -> Browser:
    return await in_database(Browser, key)


async def outcome(client: Client, site: Web, type: str, **values: Any) -> str:
    try:
        await client.open(site)
        answer = await client.ask(type, **values)
    except ConnectionClosed as closed:
        return f"closed {closed.rcvd and closed.rcvd.code}"
    finally:
        await client.close()
    return str(answer.get("code") or answer["type"])


def streamed(site: Web, path: str, session: str) -> tuple[int, list[str]]:
    """The status of an event stream, and the types of its events to the end."""
    stream = Stream(site, path, session)
    try:
        return stream.status, [event["type"] for event in stream.events()] if stream.status == 200 else []
    finally:
        stream.close()


async def test_a_visitor_chats_over_the_websocket(site: Web) -> None:
    ann, bob = await browser("ws-ann"), await browser("ws-bob")
    client = ann.client()
    await client.connect(site)
    sent = await client.ask("send", text=wish("Hello!"), ticket=ann.ticket)
    await client.until_run_ends(sent["run"])
    again = ann.client()
    await again.connect(site)
    await again.until_run_ends(sent["run"])
    thread = await in_database(lambda: Thread.objects.get(key="ws-ann"))
    assert thread.visitor == visitors.digest(ann.request.session[visitors.SESSION_NAME])
    frames: dict[str, dict[str, Any]] = {"subscribe": {"after": 0}, "send": {"text": "x"}, "cancel": {"run": "x"}}
    for frame, values in frames.items():
        assert await outcome(bob.client("ws-ann"), site, frame, **values) == "closed 4404"
        assert await outcome(Client("ws-ann", ""), site, frame, **values) == "closed 4401"
    assert await outcome(bob.client(), site, "send", text="x", ticket=ann.ticket) == "ticket_invalid"
    assert await outcome(bob.client(), site, "send", text="x", agent="puppet") == "thread_not_found"


async def test_f50_a_socket_hears_of_the_sign_in(site: Web) -> None:
    """The conversation is another's now, as far as this session goes."""
    ann = await browser("ws-signing-in")
    client = ann.client()
    await client.connect(site)
    sent = await client.ask("send", text=wish("Hello!"), ticket=ann.ticket)
    await client.until_run_ends(sent["run"])
    visitor = visitors.digest(ann.request.session[visitors.SESSION_NAME])
    user = await in_database(person)
    await in_database(visiting.carry_over, visitor, user.pk)
    with pytest.raises(ConnectionClosed) as closed:
        await client.ask("send", text="x")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4404


async def test_the_event_stream_is_a_visitors_too(site: Web) -> None:
    ann, bob = await browser("sse-ann"), await browser("sse-bob")
    client = ann.client()
    await client.connect(site)
    sent = await client.ask("send", text=wish("Hello!"), ticket=ann.ticket)
    await client.until_run_ends(sent["run"])
    status, events = await in_database(streamed, site, "/stream/sse-ann/", ann.session)
    assert status == 200
    assert "RUN_FINISHED" in events
    assert await in_database(streamed, site, "/stream/sse-ann/", bob.session) == (404, [])
    assert await in_database(streamed, site, "/stream/sse-ann/", "") == (401, [])


async def test_an_open_event_stream_ends_when_the_session_is_over(site: Web) -> None:
    """The run waits for a person meanwhile, and would keep the stream open."""
    ann = await browser("sse-open")
    client = ann.client()
    await client.connect(site)
    await client.ask(
        "send", text=wish([{"tool_call": {"name": "wipe", "arguments": {"name": "x"}}}]), ticket=ann.ticket
    )
    await client.until(lambda: client.transcript.state == "suspended")
    task = asyncio.create_task(asyncio.to_thread(streamed, site, "/stream/sse-open/", ann.session))
    await asyncio.sleep(3 * LIMITS["RECHECK_SECONDS"])
    assert not task.done()
    await in_database(ann.request.session.flush)
    status, events = await task
    assert status == 200
    assert "RUN_STARTED" in events


async def test_ag_ui_takes_visitors_with_a_ticket(site: Web) -> None:
    ann, bob = await browser("agui-ann"), await browser("agui-bob")
    given = body("agui-ann", wish("Hello!"), forwardedProps={"ticket": ann.ticket})
    status, events = await ask(site, given, ann.session)
    assert status == 200
    assert events[-1]["type"] == "RUN_FINISHED"
    assert (await ask(site, body("agui-ann", "x"), bob.session))[0] == 404
    assert (await ask(site, body("agui-ann", "x"), ""))[0] == 401
    status, problem = await ask(site, body("agui-bob", "x", forwardedProps={"ticket": ann.ticket}), bob.session)
    assert (status, problem["code"]) == (403, "ticket_invalid")


async def test_an_address_is_bounded_over_the_websocket(site: Web) -> None:
    """Live runs of one address, whichever visitor's they are."""
    slow, found, open_ones = wish("word " * 2000, delay=0.05, chunk=5), [], []
    for number in range(3):
        each = await browser(f"bound-{number}")
        client = each.client()
        await client.connect(site)
        answer = await client.ask("send", text=slow, ticket=each.ticket)
        found.append(answer.get("code") or answer["type"])
        open_ones.append((client, answer))
    assert found == ["ack", "ack", "too_many_runs"]
    for client, answer in open_ones[:2]:
        assert (await client.ask("cancel", run=answer["run"]))["type"] == "ack"
        await client.until_run_ends(answer["run"])
