"""Two hundred agencies made at random, driven until nothing is left to do."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from criogen_threads import errors
from criogen_threads.engine import delegation, loop
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.pools import in_database
from criogen_threads.engine.recovery import recover
from criogen_threads.models import Thread, ToolCall
from tests.agency.support import forget_agencies, threads_of
from tests.agency.world import Dying, Plan, World, check, plans, seen
from tests.flush import stop_worker
from tests.support import in_db

if TYPE_CHECKING:
    from criogen_threads.threads import ThreadHandle

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]

numbers = count()
MOST_ROUNDS = 60
ACTIONS = ("approve", "approve", "reject", "one", "one where it waits", "answered, then dead", "cancel", "rewind")
USUAL = ("asked", "asked by an asked one", "an asked one that waits")
EXPECTED = ("limit_reached", "cancelled", "lease_lost")


PROFILE = settings(
    max_examples=200, deadline=None, database=None, print_blob=True, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def test_b17_every_run_ends_or_waits_whoever_asks_whom() -> None:
    """B14, B17: none is orphaned, and what happened is one tree; also where the process dies on the way."""
    met: Counter[str] = Counter()

    @PROFILE
    @given(plans, st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=6), st.none() | st.integers(0, 40))
    def one(plan: Plan, actions: list[str], dies_after: int | None) -> None:
        world = World(plan)
        chat = world.agency.entry.thread(f"random-{next(numbers)}")
        try:
            asyncio.run(drive(chat, world, actions, dies_after, met))
        finally:
            forget_agencies()

    one()
    assert all(met[what] for what in USUAL), met


async def drive(
    chat: ThreadHandle, world: World, actions: list[str], dies_after: int | None, met: Counter[str]
) -> None:
    for text in ("first", "second"):
        await until_it_rests(chat, chat.send(text), dies_after)
        await in_db(check, chat.id, world)
        for action in [*actions, *["approve"] * MOST_ROUNDS]:
            if not await in_db(Thread.objects.filter(key=chat.id, status="suspended").exists):
                break
            met.update(await in_db(seen, chat.id))
            await until_it_rests(chat, act(chat, action), None)
            await in_db(check, chat.id, world)
        else:
            raise AssertionError("it never ends")
    met.update(await in_db(seen, chat.id))


async def until_it_rests(chat: ThreadHandle, work: Any, dies_after: int | None) -> None:
    """Do something; where the process died of it, a new one recovers what it left."""
    if dies_after is not None:
        loop.in_database = delegation.in_database = Dying(dies_after, in_database)  # type: ignore[assignment]
    try:
        await work
    except errors.CriogenError as error:
        if error.code not in EXPECTED:
            raise
    finally:
        loop.in_database = delegation.in_database = in_database
    if dies_after is not None:
        await in_db(stop_worker)
        await recover()


async def act(chat: ThreadHandle, action: str) -> None:
    waiting = await in_db(_waiting, chat.id)
    match action:
        case "approve":
            await chat.approve()
        case "reject":
            await chat.reject("no")
        case "one":
            await chat.decide({waiting[0].pk: True})
        case "one where it waits":
            thread = await in_db(Thread.objects.get, pk=waiting[-1].thread_id)
            handle = await chat.agent.agency.get_thread(thread.key)  # type: ignore[union-attr]
            assert handle is not None
            await handle.decide({waiting[-1].pk: False})
        case "answered, then dead":
            await in_db(chat.record, None, Decision(approve=True))
            await in_db(stop_worker)
            await recover()
        case "cancel":
            await chat.cancel()
        case "rewind":
            history = await chat.history(100)
            await chat.rewind(history[len(history) // 2]["id"])
            head = (await chat.history(1))[0]
            if head["status"] in ("in_progress", "failed"):
                await chat.retry()


def _waiting(key: str) -> list[ToolCall]:
    return list(ToolCall.objects.awaiting_approval().filter(thread__in=threads_of(key)).order_by("pk"))
