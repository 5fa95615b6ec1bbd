"""What the processes of the crash matrix do.

Each scenario looks at the rows, does what is due, and looks again until nothing is: so the process that dies in
it and the new one that goes on after it run the same code.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads import errors
from criogen_threads.engine import dispatch, reads
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.pools import in_database
from criogen_threads.engine.recovery import recover
from tests.crash import actors, chain

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from criogen_threads.agents import Agency, Agent
    from criogen_threads.models import Thread
    from criogen_threads.threads import ThreadHandle

MOST_ROUNDS = 20
SUBMITTED_SECONDS = 45  # a child that hangs is ended later
LEDGER = actors.Ledger(Path())


@cache
def agent(on_crash: str) -> Agent:
    """The agent whose slow tool has this ``on_crash``."""
    return actors.build(LEDGER, on_crash)


@cache
def agency() -> Agency:
    return chain.build(LEDGER)


@dataclass
class Stage:
    """What a scenario works with."""

    handle: ThreadHandle
    folder: Path
    own: set[str] = field(default_factory=set)  # the runs that this very process has dispatched

    async def thread(self) -> Thread | None:
        return await in_database(reads.thread, self.handle.id)

    async def run(self) -> dict[str, Any] | None:
        return await self.handle.get_current_run()

    async def next_text(self) -> tuple[str, str] | None:
        """What is still to be said, with its client id; None when all is said."""
        said = sum(message["role"] == "user" for message in await self.handle.messages())
        forks = sum(checkpoint["source"] == "fork" for checkpoint in await self.handle.history(100))
        if said == len(actors.TEXTS):
            return None
        return actors.TEXTS[said], f"turn-{said}-{forks}"


async def turn(stage: Stage) -> None:
    """Two turns, the first one with tools and an approval, by send, retry and approve."""
    for _ in range(MOST_ROUNDS):
        thread, run = await stage.thread(), await stage.run()
        text = await stage.next_text()
        if run is None and thread is not None and thread.head and thread.head.status != "completed":
            await stage.handle.retry()  # rewound to the middle of a run
        elif run is None or run["status"] == "completed":
            if text is None:
                return
            await stage.handle.send(text[0], client_id=text[1])
        elif run["status"] == "in_progress":
            await go_on(stage, run)
        elif run["status"] == "requires_action":
            await answer(stage, thread)
        else:
            raise AssertionError(run)
    raise AssertionError("the turn does not end")


async def go_on(stage: Stage, run: dict[str, Any]) -> None:
    """The process of this run is dead: nothing else may start, and the message that it had is not doubled."""
    with pytest.raises(errors.ThreadInterruptedError):
        await stage.handle.send("Are you there?")
    if run["client_id"]:
        said = sum(message["role"] == "user" for message in await stage.handle.messages())
        with pytest.raises(errors.ThreadInterruptedError):
            await stage.handle.send(actors.TEXTS[said - 1], client_id=run["client_id"])
    await stage.handle.retry()


async def answer(stage: Stage, thread: Thread | None) -> None:
    """Answer the open approvals, one at a time; where all are answered, go on."""
    assert thread is not None
    waiting = await in_database(reads.pending, thread.pk, thread.current_run_id)
    if not waiting:
        with suppress(errors.ThreadSuspendedError):  # agents that were asked had still to go back with a rewind
            await stage.handle.retry()
    elif len(waiting) == 1:
        await stage.handle.approve()
    else:
        reply = await stage.handle.decide({waiting[0].pk: True})
        assert reply.status == "suspended"


async def submitted(stage: Stage) -> None:
    """The same two turns, each queued and run by the dispatcher; the answers too are only put on record."""
    deadline = time.monotonic() + SUBMITTED_SECONDS
    while time.monotonic() < deadline:
        runs = await stage.handle.runs()
        run, text = (runs[-1] if runs else None), await stage.next_text()
        if run is None or run["status"] == "completed":
            if text is None:
                return
            stage.own.add(await stage.handle.submit(text[0], client_id=text[1]))
        elif run["id"] in stage.own and not await _answers(stage, run):
            await asyncio.sleep(0.01)
        elif run["id"] not in stage.own:
            stage.own.add(run["id"])
            await recover()
    raise AssertionError("the submitted turn does not end")


async def _answers(stage: Stage, run: dict[str, Any]) -> bool:
    """Whether approvals were open, which are answered now."""
    if run["status"] != "requires_action" or not (thread := await stage.thread()):
        return False
    if not await in_database(reads.pending, thread.pk, thread.current_run_id):
        return False
    await in_database(stage.handle.record, None, Decision(approve=True))
    dispatch.resume(stage.handle.id)
    return True


def rewound(source: str) -> Callable[[Stage], Coroutine[Any, Any, None]]:
    """Go back to the first checkpoint of a kind, once, and on from there."""

    async def scenario(stage: Stage) -> None:
        history = await stage.handle.history(100)
        if not any(checkpoint["source"] == "fork" for checkpoint in history):
            target = next(checkpoint for checkpoint in reversed(history) if checkpoint["source"] == source)
            await stage.handle.rewind(target["id"])
        await turn(stage)

    return scenario


async def deleted(stage: Stage) -> None:
    """Delete the conversation and begin it anew under the same key."""
    epoch = (stage.folder / "epoch").read_text()
    thread = await stage.thread()
    if thread is not None and str(thread.pk) == epoch:
        assert await stage.handle.delete() is True
    await turn(stage)


async def prepare(stage: Stage) -> None:
    """A finished conversation; its epoch is kept in a file."""
    epoch = stage.folder / "epoch"
    if not epoch.exists():
        await turn(stage)
        thread = await stage.thread()
        assert thread is not None
        epoch.write_text(str(thread.pk))


SCENARIOS: dict[str, Callable[[Stage], Coroutine[Any, Any, None]]] = {
    "turn": turn,
    "submitted": submitted,
    "rewound to a step": rewound("step"),
    "rewound to a suspension": rewound("suspend"),
    "deleted": deleted,
}
PREPARED = {"rewound to a step", "rewound to a suspension", "deleted"}
