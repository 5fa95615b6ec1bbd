"""Recorded conversations of a real model, watched by a client whose connection is cut again and again."""

from __future__ import annotations

import asyncio
import json
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from tests.streaming.puppet import wish
from tests.streaming.test_reconnects import new_room, watch
from tests.streaming.transcript import stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.streaming.servers import Web

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"
PATHS = sorted(RECORDINGS.glob("airline-*.json"))
TURNS = 500
AT_ONCE = 6

pytestmark = [
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not PATHS, reason="the recordings of ../shared are not here"),
]


def wishes(path: Path) -> list[str]:
    """Each turn of a recording as the puppet plays it: what the model said, its calls as calls of ``look``."""
    recording: dict[str, Any] = json.loads(path.read_text())
    turns: list[list[Any]] = []
    for message in recording["messages"]:
        if message["role"] == "user":
            turns.append([])
        elif message["role"] == "assistant":
            turns[-1].append(_answer(message, len(turns)))
    return [wish(*answers, delay=0, chunk=40) for answers in turns]


def _answer(message: dict[str, Any], number: int) -> Any:
    calls = [{"tool_call": {"name": "look", "arguments": {"n": number}}} for _ in message.get("tool_calls", ())]
    text = [{"text": message["content"]}] if message.get("content") else []
    return [*text, *calls] if calls else message["content"]


async def test_f44_f51_500_recorded_turns_arrive_whole(site: list[Web]) -> None:
    """All recordings, some of them at once and some more than once, each in a room of its own."""
    recordings = chosen()
    assert sum(map(len, recordings)) >= TURNS
    slots = asyncio.Semaphore(AT_ONCE)

    async def play_in_a_slot(number: int) -> None:
        async with slots:
            await play(site if number % 2 else site[::-1], recordings[number], number)

    async with asyncio.TaskGroup() as group:
        for number in range(len(recordings)):
            group.create_task(play_in_a_slot(number))


def chosen() -> list[list[str]]:
    """Recordings, from the first one again after the last, until they have so many turns."""
    found: list[list[str]] = []
    for path in cycle(PATHS):
        if sum(map(len, found)) >= TURNS:
            return found
        found.append(wishes(path))
    return found


async def play(site: Sequence[Web], turns: list[str], number: int) -> None:
    """One conversation, sent through one process and watched through both, cut again and again."""
    room = await in_database(new_room)
    sender, watcher = room.client(), room.client()
    await sender.connect(site[0])
    cuts = [7 + number % 5, 3, 11, 5 + number % 3] * len(turns)
    watching = asyncio.create_task(watch(watcher, [site[1], site[0]], cuts, len(turns)))
    for text in turns:
        sent = await sender.ask("send", text=text)
        await sender.until_run_ends(sent["run"])
    await watching
    said = stored(await in_database(reads.messages, room.key))
    assert watcher.transcript.said == sender.transcript.said == said
    assert len([role for role, *_ in said if role == "user"]) == len(turns)
    await asyncio.gather(sender.close(), watcher.close())
