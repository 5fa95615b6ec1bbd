"""What many sockets and slow databases cost."""

from __future__ import annotations

import asyncio
import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from criogen_threads.engine.pools import in_database
from tests.streaming.puppet import wish
from tests.streaming.test_agui import headers
from tests.streaming.test_reconnects import new_room

if TYPE_CHECKING:
    from tests.streaming.conftest import Room
    from tests.streaming.servers import Web

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="connections are counted on PostgreSQL"),
]

SLOW = wish("word " * 200, delay=0.05, chunk=5)


def bound() -> int:
    """What two processes may have open: each its pool, and the beat."""
    return int(2 * (connection.settings_dict["OPTIONS"]["pool"]["max_size"] + 1))


def connections() -> list[tuple[int, str, Any]]:
    """The other connections to this database: process, state, and when their transaction began."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid, state, xact_start FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )
        return list(cursor.fetchall())


def waiting_in_transactions(states: list[tuple[int, str, Any]]) -> set[tuple[int, Any]]:
    """Transactions that were begun, and do nothing."""
    return {(pid, began) for pid, state, began in states if state == "idle in transaction"}


async def test_f42_f43_connections_stay_bounded_and_none_waits_in_a_transaction(site: list[Web], room: Room) -> None:
    clients = [room.client() for _ in range(100)]
    await asyncio.gather(*(client.connect(site[number % 2]) for number, client in enumerate(clients)))
    sent = await clients[0].ask("send", text=wish("word " * 60, delay=0.1, chunk=5))
    await clients[0].until_event("TEXT_MESSAGE_CONTENT")
    own = connection.pool.get_stats()["pool_size"] + 2  # what the suite's own process has open
    seen = []
    for _ in range(10):
        seen.append(await in_database(connections))
        await asyncio.sleep(0.05)
    assert max(map(len, seen)) <= bound() + own
    waiting = [waiting_in_transactions(states) for states in seen]  # a save may be caught in the act
    assert not set.intersection(*waiting), "one waits for the model"
    await asyncio.gather(*(client.until_run_ends(sent["run"]) for client in clients))
    assert len({str(client.transcript.said) for client in clients}) == 1


async def test_f43_connections_stay_bounded_under_200_sockets_50_turns_in_line_and_50_waiting_requests(
    site: list[Web], room: Room
) -> None:
    clients = [room.client() for _ in range(200)]
    for start in range(0, 200, 50):
        some = clients[start : start + 50]
        await asyncio.gather(*(client.connect(site[number % 2]) for number, client in enumerate(some)))
    rooms = await in_database(lambda: [new_room() for _ in range(50)])
    own = connection.pool.get_stats()["pool_size"] + 2
    loop, seen = asyncio.get_running_loop(), []
    with ThreadPoolExecutor(100) as pool:
        asked = [
            loop.run_in_executor(pool, post_run, site[number % 2], each, SLOW, wait)
            for wait in ("", "?wait=2")  # each room has a turn under way, or one in line behind it
            for number, each in enumerate(rooms)
        ]
        while not all(request.done() for request in asked):
            seen.append(len(await in_database(connections)))
            await asyncio.sleep(0.05)
        statuses = [request.result()[0] for request in asked]
    assert set(statuses) <= {200, 202}
    assert len(seen) >= 3
    assert max(seen) <= bound() + own
    assert (await clients[-1].ask("ping"))["type"] == "pong"
    for each in rooms:
        for run in reversed(await each.handle().runs()):
            await each.handle().ask_to_stop(run["id"])


def post_run(web: Web, room: Room, text: str = SLOW, query: str = "") -> tuple[int, Any]:
    """Say something over HTTP; the status, and the run."""
    asking = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
    body = json.dumps({"text": text})
    asking.request("POST", f"/api/threads/{room.key}/runs/{query}", body, headers(room.session))
    response = asking.getresponse()
    run = json.loads(response.read())
    asking.close()
    return response.status, run


async def test_f48_one_slow_query_stops_no_other_socket(site: list[Web], room: Room) -> None:
    """A socket waits for a locked thread; another one on the same process is answered meanwhile."""
    blocked, free = room.client(), room.client()
    await blocked.connect(site[0])
    await free.connect(site[0])
    locked, done = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        from django.db import transaction

        from criogen_threads.models import Thread

        with transaction.atomic():
            Thread.objects.select_for_update().get(key=room.key)
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(done.wait(), loop).result(90)

    holding = asyncio.create_task(in_database(hold))
    await locked.wait()
    await blocked.say(type="send", id=99, text=wish("late"))
    for _ in range(3):
        assert (await free.ask("ping"))["type"] == "pong"  # while the thread is locked
        assert (await blocked.ask("ping"))["type"] == "pong"  # not even its own
    assert 99 not in blocked.replies
    done.set()
    await holding
    await blocked.until(lambda: 99 in blocked.replies)
    await free.until_run_ends(blocked.replies[99]["run"])
