"""Connections cut at random moments, messages of the layer lost, answers that break off half-way."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from tests.streaming.conftest import Room, begin
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, web
from tests.streaming.transcript import stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.streaming.client import Client

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLES, KILLS = (125, 60) if os.environ.get("CRIOGEN_LONG") else (8, 4)

texts = st.text(st.sampled_from("aé👩‍👧\n🏳️‍🌈 ß"), min_size=1, max_size=120).filter(str.strip)
calls = st.fixed_dictionaries({"name": st.just("look"), "arguments": st.fixed_dictionaries({"n": st.integers(0, 9)})})
steps = st.lists(st.one_of(st.fixed_dictionaries({"tool_call": calls}), st.fixed_dictionaries({"reasoning": texts})))
asking = st.tuples(st.fixed_dictionaries({"text": texts}), calls, steps).map(
    lambda given: [given[0], {"tool_call": given[1]}, *given[2][:2]]
)
wishes = st.builds(
    lambda asks, last, chunk, fails: wish(*asks, last, delay=0.004, chunk=chunk, fails=fails),
    st.lists(asking, max_size=2), texts, st.integers(1, 9), st.sampled_from([0, 0, 1]),
)  # fmt: skip
turns = st.lists(wishes, min_size=1, max_size=3)
cuts = st.lists(st.integers(1, 9), max_size=12)


@pytest.fixture(scope="module", params=["alone", 0.0, 0.05, 0.3])
def lossy(request: Any, committed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Web]]:
    """Where to send and where to watch, with this part of the layer's messages lost."""
    if request.param != "alone" and connection.vendor == "sqlite":
        pytest.skip("two processes are for PostgreSQL")
    folder = tmp_path_factory.mktemp("web")
    if request.param == "alone":
        with web(folder) as processes:
            yield processes * 2
        return
    with web(folder, 2, layer=request.getfixturevalue("valkey").url, loss=request.param) as processes:
        yield processes


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=not os.environ.get("CRIOGEN_LONG"),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(turns=turns, cuts=cuts)
def test_f44_f45_f51_the_transcript_is_exact_whatever_is_cut_and_lost(
    lossy: list[Web], turns: list[str], cuts: list[int]
) -> None:
    asyncio.run(_play(lossy, turns, cuts))


async def _play(site: Sequence[Web], turns: list[str], cuts: list[int]) -> None:
    room = await in_database(new_room)
    sender, watcher = room.client(), room.client()
    await sender.connect(site[0])
    watching = asyncio.create_task(watch(watcher, [site[1], site[0]], cuts, len(turns)))
    for turn in turns:
        sent = await sender.ask("send", text=turn)
        await sender.until_run_ends(sent["run"])
    await watching
    said = stored(await in_database(reads.messages, room.key))
    assert watcher.transcript.said == said
    assert sender.transcript.said == said
    assert not watcher.transcript.live
    await asyncio.gather(sender.close(), watcher.close())


def new_room() -> Room:
    room = Room()
    begin(room)
    return room


async def watch(client: Client, site: Sequence[Web], cuts: list[int], runs: int) -> None:
    """Watch until so many runs have ended, losing the connection after each of these numbers of frames."""
    for number, cut in enumerate([*cuts, None]):
        await client.connect(site[number % len(site)])
        frames = 0
        with suppress(ConnectionClosed):
            while len(client.transcript.ended) < runs and (cut is None or frames < cut):
                await client.read()
                frames += 1
        if len(client.transcript.ended) >= runs:
            return
        await client.cut()


# A runner that dies -------------------------------------------------------------------------------------------------


class Doomed:
    """A process that runs turns and is killed, with one that survives it beside."""

    def __init__(self, folder: Path, layer: str) -> None:
        self.folder, self.layer = folder, layer
        self.survivor = self.start().ready()
        self.next = self.start()

    def start(self) -> Web:
        return Web(self.folder, layer=self.layer, LEASE_SECONDS=2, HEARTBEAT_SECONDS=0.5)

    def take(self) -> Web:
        """One to kill; the next one starts meanwhile."""
        taken, self.next = self.next.ready(), self.start()
        return taken

    def close(self) -> None:
        for each in (self.survivor, self.next):
            each.stop()


@pytest.fixture(scope="module")
def doomed(request: Any, committed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doomed]:
    if connection.vendor == "sqlite":
        pytest.skip("two processes are for PostgreSQL")
    found = Doomed(tmp_path_factory.mktemp("doomed"), request.getfixturevalue("valkey").url)
    yield found
    found.close()


@settings(
    max_examples=KILLS, deadline=None, derandomize=not os.environ.get("CRIOGEN_LONG"),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(turn=wishes, moment=st.integers(0, 40), cuts=cuts)
def test_f44_f51_the_transcript_is_exact_whenever_the_runner_is_killed(
    doomed: Doomed, turn: str, moment: int, cuts: list[int]
) -> None:
    asyncio.run(_kill(doomed, turn, moment, cuts))


async def _kill(doomed: Doomed, turn: str, moment: int, cuts: list[int]) -> None:
    """Kill the runner after so many frames of the turn, and go on with the one that survives."""
    room, dying = await in_database(new_room), await asyncio.to_thread(doomed.take)
    sender, watcher = room.client(), room.client()
    try:
        await sender.connect(dying)
        sent = await sender.ask("send", text=turn)
        seen = len(sender.frames)
        while len(sender.frames) < seen + moment and sent["run"] not in sender.transcript.ended:
            await sender.read()
    finally:
        dying.kill()
    await sender.connect(doomed.survivor)
    await sender.until_run_ends(sent["run"])
    if sender.transcript.ended[sent["run"]] == "thread_interrupted":
        assert not sender.transcript.live, "a half answer is withdrawn"
        assert (await sender.ask("retry"))["run"] == sent["run"]
        await sender.until(lambda: sender.transcript.ended.get(sent["run"]) == "success")
    await watch(watcher, [doomed.survivor], cuts, 1)
    said = stored(await in_database(reads.messages, room.key))
    assert sender.transcript.said == watcher.transcript.said == said
    assert len([role for role, *_ in said if role == "user"]) == 1
    await asyncio.gather(sender.close(), watcher.close())
