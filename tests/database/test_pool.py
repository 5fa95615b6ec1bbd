"""A pool that is too small, or that the site has emptied: patience, then a clear error, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from criogen_threads.agents import Tool
from criogen_threads.engine.journal.statements import database
from criogen_threads.models import Run, Thread, Worker
from project.desk.models import CallBack
from tests.database.turn import Turn
from tests.support import an_agent, call, in_db, is_valid, refused, results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper

    from tests.database.conftest import Breakable

TURNS = 40


def pool(*sizes: int) -> pytest.MarkDecorator:
    """Run a test with a pool of at most so many connections."""
    return pytest.mark.parametrize("pool_size", sizes, indirect=True)


@contextmanager
def taken(size: int) -> Iterator[None]:
    """The site's own threads have every connection of the pool while the block runs."""
    ready, over = threading.Barrier(size + 1), threading.Event()

    def take() -> None:
        connections[database()].ensure_connection()
        ready.wait(20)
        over.wait(60)
        connections[database()].close()

    threads = [threading.Thread(target=take) for _ in range(size)]
    for thread in threads:
        thread.start()
    ready.wait(20)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pool(1, 2)
async def test_f43_many_turns_share_a_pool_of_one_or_two(pool_size: int, settings: SettingsWrapper) -> None:
    """Their tools want connections too: one that reads, and an atomic one."""
    settings.CRIOGEN_THREADS |= {"DATABASE_RETRY_SECONDS": 60}

    def count() -> int:
        CallBack.objects.count()
        time.sleep(0.002)
        return 1

    def book() -> str:
        CallBack.objects.create(phone="1", when="now")
        return "booked"

    agent = an_agent([call("count"), call("book")], "Done", tools=[Tool(count, retries=10), Tool(book, atomic=True)])
    chats = [agent.thread(f"t{number}") for number in range(TURNS)]
    replies = await asyncio.gather(*(chat.send("Go") for chat in chats))
    assert {reply.text for reply in replies} == {"Done"}
    for reply in replies:
        assert is_valid(reply.messages)
        assert sorted(map(str, results(reply.messages))) == ["1", "booked"]
    assert await in_db(CallBack.objects.count) == TURNS
    assert await in_db(_stands_at_rest) == {("idle", 5, None)}


def _stands_at_rest() -> set[Any]:
    return set(Thread.objects.values_list("status", "version", "holder"))


@pool(2)
async def test_a_pool_that_the_site_has_emptied_refuses_a_turn_with_a_code(
    pool_size: int, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS |= {"DATABASE_RETRY_SECONDS": 0.5}
    turn = Turn()
    with taken(pool_size):
        for ask in (turn.chat.send, turn.chat.submit):
            with refused("database_unavailable"):
                await ask("Hello")
        with refused("database_unavailable"):
            await turn.chat.messages()
    assert await in_db(Run.objects.count) == 0
    assert (await turn.chat.send("Hello")).text == "Done"
    await turn.went_well()


@pool(2)
@pytest.mark.parametrize("place", ["asked", "looking", "asked_again"])
async def test_a_turn_waits_until_the_site_gives_connections_back(pool_size: int, place: str) -> None:
    over = threading.Event()

    def empty() -> None:
        emptied = taken(pool_size)
        emptied.__enter__()
        threading.Timer(1, lambda: (emptied.__exit__(None, None, None), over.set())).start()

    turn = Turn(**{place: empty})
    assert (await turn.chat.send("Hello")).text == "Done"
    assert await asyncio.to_thread(over.wait, 10)
    assert turn.looked == 1
    await turn.went_well()


@pool(2)
async def test_the_lease_outlives_an_empty_pool_and_retry_goes_on(pool_size: int, settings: SettingsWrapper) -> None:
    """The beat has a connection outside the pool: the worker stays alive, and lets go of what could not be saved."""
    settings.CRIOGEN_THREADS |= {"DATABASE_RETRY_SECONDS": 0.5, "LEASE_SECONDS": 4, "HEARTBEAT_SECONDS": 0.5}
    emptied = taken(pool_size)
    turn = Turn(asked_again=emptied.__enter__)
    with refused("database_unavailable"):
        await turn.chat.send("Hello")
    await asyncio.sleep(4.5)  # longer than the lease
    emptied.__exit__(None, None, None)
    settings.CRIOGEN_THREADS |= {"DATABASE_RETRY_SECONDS": 30}
    with refused("thread_interrupted"):
        await turn.chat.send("Are you there?", timeout=20)
    assert (await turn.chat.retry()).text == "Done"
    assert turn.looked == 1
    await turn.went_well()
    assert await in_db(Worker.objects.count) == 1  # the same one


@pool(1)
async def test_a_tool_that_waits_for_another_agent_holds_no_connection(pool_size: int) -> None:
    """With one connection in the pool both would wait for each other for ever."""
    an_agent("I know", name="specialist")

    def consult() -> str:
        from criogen_threads.agents import get_agent

        CallBack.objects.count()
        return get_agent("specialist").run_sync("Well?").text

    chat = an_agent([call("consult")], "Done", tools=[Tool(consult)]).thread("t")
    assert (await chat.send("Go")).text == "Done"
    assert results(await chat.messages()) == ["I know"]


async def test_f42_every_idle_connection_is_cut_between_turns(server: Breakable) -> None:
    """Not one after the other: none of the dead ones in the pool costs a turn, nor does that of the beat."""
    agent = an_agent("one", "two", "three", "four")
    chats = [agent.thread(f"t{number}") for number in range(8)]
    for answer in ("one", "two", "three", "four"):
        replies = await asyncio.gather(*(chat.send("Hello") for chat in chats))
        assert {reply.text for reply in replies} == {answer}
        await asyncio.to_thread(server.terminate)
    assert await in_db(_stands_at_rest) == {("idle", 8, None)}
    assert await in_db(Worker.objects.count) == 1
