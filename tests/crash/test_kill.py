"""A recorded conversation whose process is killed again and again, and continued by the next one."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from criogen_threads import errors
from project.desk.models import CallBack
from tests.backends.support import Replay, needs_replay
from tests.crash.actors import lines
from tests.processes import run_child
from tests.replay.support import Conversation, said
from tests.support import in_db

if TYPE_CHECKING:
    from pathlib import Path

    from criogen_threads.threads import ThreadHandle

pytestmark = [needs_replay, pytest.mark.django_db(transaction=True)]

RECORDING = "airline-02-0"
PLAIN = ["1.1", "1.2", "1.3", "1.4", "3.1"]
ATOMIC = ["2.1", "2.2"]
KILLS = ["inside 1.2", "after 1.3", "inside 2.1", "after 2.1", "inside 2.2"]


async def test_p15_p16_f09_killed_inside_tools_and_between_them_and_continued_by_new_processes(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with Replay() as replay:
        conversation = Conversation(RECORDING)
        chat = conversation.agent(replay.url, atomic=True).thread(RECORDING)
        for place in KILLS:
            ended = await in_db(
                run_child, "tests.crash.replayed", replay.url, RECORDING, str(ledger), place, check=False
            )
            assert ended.returncode == -signal.SIGKILL, ended.stderr
            await unfinished(chat)
            assert set(await booked()) == {"2.1"} & set(finished(place)), place
        await in_db(run_child, "tests.crash.replayed", replay.url, RECORDING, str(ledger))
        assert await said(chat) == conversation.messages
        assert replay.state.mismatches == 0, replay.state.last_mismatch
    effects = Counter(lines(ledger))
    assert effects == Counter(PLAIN) + Counter(["1.2"])  # the one that had started ran again, and no other
    assert await booked() == ATOMIC
    assert [run["status"] for run in await chat.runs()] == ["completed"] * len(conversation.turns)


def finished(place: str) -> list[str]:
    """Of the tools, those whose result is saved when a process dies at this place."""
    when, last = place.split()
    order = sorted(PLAIN + ATOMIC)
    return order[: order.index(last) + (when == "after")]


async def unfinished(chat: ThreadHandle) -> None:
    """P15: the run is there, unfinished, and a send does not go on with it."""
    run = await chat.get_current_run()
    assert run
    assert run["status"] == "in_progress"
    with pytest.raises((errors.ThreadInterruptedError, errors.ThreadBusyError)):  # its lease may not be over yet
        await chat.send("Hello?", timeout=0)


async def booked() -> list[str]:
    return await in_db(lambda: sorted(CallBack.objects.values_list("phone", flat=True)))
