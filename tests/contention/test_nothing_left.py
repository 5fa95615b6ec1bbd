"""Crowds of calls, and calls that are cancelled at any moment, leave nothing behind and stay within bounds."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Run, Thread, ToolCall
from tests.contention.measures import engine_threads, open_connections, other_tasks, watched
from tests.support import Gate, an_agent, call, in_db, is_valid

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from criogen_threads.agents import Agent

pytestmark = pytest.mark.django_db(transaction=True)

SENDS, KEYS = 200, 20
DATABASE_THREADS, TOOL_THREADS = 6, 8


@pytest.fixture(autouse=True)
def small_pools(patient: None, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {
        "BUSY_TIMEOUT": 300, "DATABASE_THREADS": DATABASE_THREADS, "TOOL_THREADS": TOOL_THREADS,
    }  # fmt: skip


def thread_bounds() -> dict[str, int]:
    """How many threads of each pool there may be: what the settings allow, or what earlier tests have started."""
    allowed = {
        "criogen-notices": 2,
        "criogen-database": DATABASE_THREADS,
        "criogen-tool": TOOL_THREADS,
        "criogen-beat": 1,
        "criogen-loop": 1,
    }
    return {pool: max(count, engine_threads().get(pool, 0)) for pool, count in allowed.items()}


def a_busy_agent() -> Agent:
    """Two tools, one of them in a thread, then an answer in several pieces."""

    @tool
    async def in_a_task() -> str:
        await asyncio.sleep(0.01)
        return "task"

    @tool
    def in_a_thread() -> str:
        time.sleep(0.005)
        return "thread"

    def respond(messages: Any, tools: Any) -> Any:
        if messages[-1]["role"] == "user":
            return [{"text": "a moment"}, call("in_a_task"), call("in_a_thread")]
        return "the answer, in pieces"

    return an_agent(model=ScriptedModel(respond, delay=0.002), tools=[in_a_task, in_a_thread])


async def _sent_and_cancelled(agent: Agent, chance: random.Random, number: int) -> str:
    """A send on one of the threads, cancelled at some moment: before it starts, while it waits, asks, runs tools
    or saves; or after its end. Some are left alone, so that some end well on a slow machine too."""
    await asyncio.sleep(chance.uniform(0, 4))
    task = asyncio.create_task(agent.thread(f"thread-{number % KEYS}").send(f"message {number}"))
    patience = chance.choice([0, chance.uniform(0, 0.2), chance.uniform(0, 2), None])
    if patience is not None:
        await asyncio.sleep(patience)
        task.cancel()
    try:
        return (await task).status
    except asyncio.CancelledError:
        return "cancelled"


async def test_p9_f43_200_sends_cancelled_at_random_moments_leave_nothing_behind() -> None:
    seed = random.randrange(10_000)
    print(f"the moments follow from seed {seed}")
    agent, chance = a_busy_agent(), random.Random(seed)
    bounds, before = thread_bounds(), await in_db(open_connections)
    ends = Counter(await asyncio.gather(*(_sent_and_cancelled(agent, chance, n) for n in range(SENDS))))
    assert ends["cancelled"] > SENDS / 10, "too few were cancelled to tell"
    assert ends["completed"] > 0, "none got to its end"

    assert other_tasks() == set()
    assert all(count <= bounds[pool] for pool, count in engine_threads().items())
    open_now, in_transaction = await in_db(open_connections)
    assert open_now <= before[0] + bounds["criogen-database"] + bounds["criogen-tool"] + bounds["criogen-beat"]
    assert in_transaction == 0

    runs = Counter(await in_db(lambda: list(Run.objects.values_list("status", "error_code"))))
    assert set(runs) <= {("completed", ""), ("failed", "cancelled")}
    assert runs["completed", ""] >= ends["completed"]  # one may be cancelled just behind its last save
    assert not await in_db(ToolCall.objects.filter(status__in=["ready", "running"], run__status="completed").exists)
    assert set(await in_db(lambda: list(Thread.objects.values_list("holder", "cancel_mark")))) == {(None, None)}

    for number in range(KEYS):
        chat = agent.thread(f"thread-{number}")
        assert (await chat.send("and now?")).text == "the answer, in pieces"
        assert is_valid(await chat.messages())


async def test_f43_connections_are_bounded_under_100_concurrent_sends_and_f42_none_waits_with_a_model() -> None:
    gate, asked = Gate(), []

    async def respond(messages: Any, tools: Any) -> Any:
        asked.append(1)
        await gate.wait()
        return [call("look_up")] if messages[-1]["role"] == "user" else "done"

    held: list[int] = []

    @tool
    async def look_up() -> str:
        held.append(1)
        while len(held) < 100:
            await asyncio.sleep(0.01)
        return "found"

    agent = an_agent(model=ScriptedModel(respond), tools=[look_up])
    bounds, resting = thread_bounds(), await in_db(open_connections)
    with watched() as most:
        tasks = [asyncio.create_task(agent.thread(f"thread-{number}").send("hello")) for number in range(100)]
        while len(asked) < 100:
            await asyncio.sleep(0.01)
        assert await in_db(_in_transaction) == 0
        gate.open()
        replies = await asyncio.gather(*tasks)
    assert {reply.text for reply in replies} == {"done"}
    watcher = 1
    assert most[0] <= resting[0] + bounds["criogen-database"] + bounds["criogen-beat"] + watcher


def _in_transaction() -> int:
    return open_connections()[1]
