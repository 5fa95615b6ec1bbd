"""F44, F45, F51: connections cut at random moments, messages of the layer lost, answers that break off half-way."""

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

    from tests.streaming.client import Client

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLES = 125 if os.environ.get("CRIOGEN_LONG") else 8

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
    room = await in_database(_room)
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


def _room() -> Room:
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
