"""A database that restarts, or is away, under open sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from tests.processes import spawn
from tests.services import PostgreSQL, Valkey
from tests.streaming.client import Client
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, cookie, web
from tests.streaming.transcript import stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="a file does not restart"),
]

SLOW = wish(
    [{"text": "Ein langer Text 👩‍👩‍👧. " * 20}, {"tool_call": {"name": "look", "arguments": {"n": 1}}}],
    "Und noch einer. " * 20,
    delay=0.05,
    chunk=6,
)
PATIENT = {"LEASE_SECONDS": 60, "DATABASE_RETRY_SECONDS": 10}
"""However long a restart takes here, it is no longer than what a site is told to bear."""

PREPARE = """
from django.contrib.auth.models import User
from django.core.management import call_command
from criogen_threads.models import Thread
from tests.streaming.servers import log_in
call_command("migrate", verbosity=0)
owner = User.objects.create_user("owner")
Thread.objects.create(key="room", agent="puppet", owner=owner)
print(log_in(owner))
"""


@pytest.fixture
def postgres() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def session(postgres: PostgreSQL) -> str:
    """That of the owner of a room, on the server that restarts."""
    child = spawn(PREPARE, env={"DJANGO_SETTINGS_MODULE": "tests.streaming.settings", "DATABASE_URL": postgres.url})
    out, complaints = child.communicate(timeout=120)
    assert child.returncode == 0, complaints
    return out.strip()


@pytest.fixture
def sites(postgres: PostgreSQL, valkey: Valkey, tmp_path: Path, session: str) -> Iterator[list[Web]]:
    with web(tmp_path, 2, layer=valkey.url, database=postgres.url, **PATIENT) as processes:
        yield processes


def said(site: Web, session: str) -> Any:
    """The conversation as the database has it."""
    asking = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    asking.request("GET", "/api/threads/room/messages/?limit=200", headers=cookie(session))
    messages = json.loads(asking.getresponse().read())["results"]
    asking.close()
    return stored(messages)


async def test_f42_a_restart_under_open_sockets_is_healed_and_what_cannot_be_done_has_a_code(
    postgres: PostgreSQL, sites: list[Web], session: str
) -> None:
    sender, watcher = Client("room", session), Client("room", session)
    await sender.connect(sites[0])
    await watcher.connect(sites[1])
    for word in ("Ein", "Und"):  # while the model speaks, first before its tool call, then behind it
        sent = await sender.ask("send", text=SLOW)
        await watcher.until(lambda word=word: any(word in text for text in watcher.transcript.live.values()))
        await asyncio.to_thread(postgres.restart)
        for client in (sender, watcher):
            await client.until_run_ends(sent["run"])
    await asyncio.to_thread(postgres.stop)
    refused = await sender.ask("send", text=wish("late"))
    assert (refused["type"], refused["code"]) == ("error", "database_unavailable")
    assert (await watcher.ask("ping"))["type"] == "pong"
    await asyncio.to_thread(postgres.start)
    sent = await sender.ask("send", text=wish("back again"))
    assert sent["type"] == "ack", sent
    for client in (sender, watcher):
        await client.until_run_ends(sent["run"])
    assert watcher.transcript.ended == sender.transcript.ended
    assert set(sender.transcript.ended.values()) == {"success"}
    assert sender.transcript.said == watcher.transcript.said == await asyncio.to_thread(said, sites[1], session)
    assert len(sender.transcript.said) == 2 * 4 + 2
