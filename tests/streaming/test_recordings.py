"""Recorded conversations of a real model, watched by a client whose connection is cut again and again."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from tests.streaming.puppet import wish
from tests.streaming.test_reconnects import watch
from tests.streaming.transcript import stored

if TYPE_CHECKING:
    from tests.streaming.conftest import Room
    from tests.streaming.servers import Web

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"
PATHS = sorted(RECORDINGS.glob("airline-*.json"))[: None if os.environ.get("CRIOGEN_LONG") else 2]

pytestmark = [
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
    return [wish(*answers, delay=0.001, chunk=9) for answers in turns]


def _answer(message: dict[str, Any], number: int) -> Any:
    calls = [{"tool_call": {"name": "look", "arguments": {"n": number}}} for _ in message.get("tool_calls", ())]
    text = [{"text": message["content"]}] if message.get("content") else []
    return [*text, *calls] if calls else message["content"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
async def test_f44_f51_a_recorded_conversation_arrives_whole(site: list[Web], room: Room, path: Path) -> None:
    turns = wishes(path)
    sender, watcher = room.client(), room.client()
    await sender.connect(site[0])
    watching = asyncio.create_task(watch(watcher, [site[1], site[0]], [7, 3, 11, 5] * len(turns), len(turns)))
    for text in turns:
        sent = await sender.ask("send", text=text)
        await sender.until_run_ends(sent["run"])
    await watching
    said = stored(await in_database(reads.messages, room.key))
    assert watcher.transcript.said == sender.transcript.said == said
    assert len([role for role, *_ in said if role == "user"]) == len(turns)
