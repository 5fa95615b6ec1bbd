"""The processes of a crowd: each says that it is ready, begins when it is told to, and says what came of it.

``python -m tests.contention.child JOBS``: JSON, for each process ``[in, out, ROLE, LEDGER, …]`` with the pipes that it
hears and speaks by; it says one JSON line for each outcome, ``[what, code or text, …]``. This process loads what they
need and forks them.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402

from criogen_threads.agents import Agent, register, tool  # noqa: E402
from criogen_threads.backends.scripted import ScriptedModel  # noqa: E402
from criogen_threads.errors import CriogenError  # noqa: E402
from tests.support import is_valid  # noqa: E402

settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 120, "MODEL_BACKOFF": 0.01}


class Ledger:
    """What models and tools did, in all processes, in order."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def append(self, line: str) -> None:
        """Add a line: whole, whoever else does."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def echo(ledger: Ledger, seconds: float = 0) -> ScriptedModel:
    """A model that says what it was told, and writes down from when to when it was busy."""

    async def respond(messages: Any, tools: Any) -> str:
        text = messages[-1]["content"][0]["text"]
        ledger.append(f"begin {text}")
        try:
            await asyncio.sleep(seconds)
            return f"echo: {text}" if is_valid(messages) else "this is no conversation"
        finally:
            ledger.append(f"end {text}")

    return ScriptedModel(respond)


def everybody(ledger: Ledger, count: int) -> ScriptedModel:
    """A model that answers nobody before so many have asked."""

    async def respond(messages: Any, tools: Any) -> str:
        ledger.append(messages[-1]["content"][0]["text"])
        while len(ledger.lines) < count:
            await asyncio.sleep(0.02)
        return "all are here"

    return ScriptedModel(respond)


def paying(ledger: Ledger) -> Agent:
    """An agent whose only tool needs a person."""

    @tool(approval="staff")
    def pay() -> str:
        ledger.append("paid")
        return "paid"

    return Agent("helper", model=ScriptedModel.of([{"tool_call": {"name": "pay"}}], "done"), tools=[pay])


async def outcome_of(what: str, work: Any) -> None:
    try:
        reply = await work
        _say(what, reply.text)
    except CriogenError as error:
        _say(what, error.code, error.details)


def _say(*what: Any) -> None:
    os.write(1, f"{json.dumps(what)}\n".encode())


async def turns(ledger: Ledger, key: str, name: str, count: str) -> None:
    """Send so many messages, each after the reply to the one before."""
    agent = register(Agent("helper", model=echo(ledger)))
    await _told_to()
    for number in range(int(count)):
        await outcome_of(f"{name}-{number}", agent.thread(key).send(f"{name}-{number}"))


async def mixed(ledger: Ledger, key: str, name: str, count: str) -> None:
    """The same, each time in another way."""
    chance = random.Random(name)
    agent = register(Agent("helper", model=echo(ledger, 0.1)))
    await _told_to()
    for number in range(int(count)):
        on_busy = chance.choice(["wait", "wait", "reject", "interrupt"])
        text = f"{name}-{number}-{on_busy}"
        await outcome_of(text, agent.thread(key).send(text, on_busy=on_busy))
        await asyncio.sleep(chance.uniform(0, 0.05))


async def threads(ledger: Ledger, first: str, count: str, all_of_them: str) -> None:
    """One turn on each of so many threads, at once."""
    agent = register(Agent("helper", model=everybody(ledger, int(all_of_them))))
    await _told_to()
    keys = [f"thread-{number}" for number in range(int(first), int(first) + int(count))]
    await asyncio.gather(*(outcome_of(key, agent.thread(key).send(key)) for key in keys))


async def answers(ledger: Ledger, key: str, call_id: str, *names: str) -> None:
    """Several people answer one approval at once, each in a thread of its own."""
    agent = register(paying(ledger))
    users = await asyncio.to_thread(lambda: [get_user_model().objects.get(username=name) for name in names])
    await _told_to()
    await asyncio.gather(
        *(outcome_of(user.username, asyncio.to_thread(_answer, agent, key, user, call_id)) for user in users)
    )


def _answer(agent: Agent, key: str, user: Any, call_id: str) -> Any:
    return agent.thread(key, actor=user).decide_sync({call_id: True})


async def _told_to() -> None:
    _say("ready")
    await asyncio.to_thread(os.read, 0, 1)


ROLES = {"turns": turns, "mixed": mixed, "threads": threads, "answers": answers}


def _fork(jobs: list[list[Any]]) -> None:
    """A process for each job. Each is left with its own ends of the pipes only, so that its end is heard."""
    ends = [end for job in jobs for end in job[:2]]
    for heard, said, role, path, *rest in jobs:
        pid = os.fork()
        if pid == 0:
            os.dup2(heard, 0)
            os.dup2(said, 1)
            for end in ends:
                os.close(end)
            asyncio.run(ROLES[role](Ledger(path), *rest))
            _say("ended")
            os._exit(0)
        print(pid, flush=True)
    for end in ends:
        os.close(end)
    for _ in jobs:
        os.wait()


if __name__ == "__main__":
    _fork(json.loads(sys.argv[1]))
