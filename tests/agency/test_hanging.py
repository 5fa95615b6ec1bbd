"""Hooks that never come back, behind what is saved: they stop nobody, and whoever may be stopped still is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from criogen_threads.agents import Agent, Handling
from criogen_threads.backends.base import ModelError
from criogen_threads.engine import loop
from tests.agency.support import an_agency, ask, statuses
from tests.support import Heard, an_agent, in_db, refused

pytestmark = pytest.mark.django_db(transaction=True)


class Hanging(Handling):
    """Waits for ever in one of its hooks."""

    def __init__(self, hook: str) -> None:
        self.reached = asyncio.Event()
        setattr(self, hook, self._hang)

    async def _hang(self, *_: Any) -> None:
        self.reached.set()
        await asyncio.Event().wait()


def _asking(hook: str, **options: Any) -> tuple[Any, Hanging]:
    """front asks a specialist whose hook hangs; where that is the one for errors, its model is down."""
    handling = Hanging(hook)
    answer = ModelError("down", passing=False) if hook == "on_turn_error" else "found"
    front = Agent("front", model=Heard([ask("slow")], "done"), **options)
    slow = Agent("slow", model=Heard(answer), handling=handling)
    return an_agency(entry=front, specialists=[slow]), handling


@pytest.mark.parametrize("hook", ["after_turn", "on_turn_error"])
async def test_p17_a_caller_is_cancelled_while_a_hook_of_its_specialist_hangs(hook: str) -> None:
    agency, handling = _asking(hook)
    chat = await agency.create_thread(thread_id="one")
    turn = asyncio.create_task(chat.send("go"))
    await handling.reached.wait()
    assert await asyncio.wait_for(chat.cancel(), 20)
    with refused("cancelled"):
        await asyncio.wait_for(turn, 20)
    assert (await in_db(statuses, "one"))[0] == ("front", "failed")


async def test_p17_the_time_of_a_caller_is_over_while_a_hook_of_its_specialist_hangs() -> None:
    agency, _ = _asking("after_turn", max_seconds=1)
    chat = await agency.create_thread(thread_id="one")
    with refused("limit_reached"):
        await asyncio.wait_for(chat.send("go"), 20)


@pytest.mark.parametrize("hook", ["after_turn", "on_turn_error"])
async def test_b19_a_hook_behind_a_save_that_hangs_is_left_after_a_while(
    hook: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "HOOK_SECONDS", 0.1)
    handling = Hanging(hook)
    chat = an_agent("fine", ModelError("down", passing=False), handling=handling).thread("one")
    assert (await asyncio.wait_for(chat.send("go"), 20)).text == "fine"
    with refused("model_failed"):
        await asyncio.wait_for(chat.send("go"), 20)
    assert handling.reached.is_set()
    assert "did not come back" in caplog.text
