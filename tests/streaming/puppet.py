"""A model that does what the user's message says, so that a test can drive one in another process."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from criogen_threads.agents import Agent, tool
from criogen_threads.backends.base import ModelAnswer, ModelBackend, ModelError, TextDelta
from criogen_threads.backends.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from criogen_threads.backends.base import Delta, ModelRequest


def wish(*answers: Any, delay: float = 0.002, chunk: int = 7, fails: int = 0) -> str:
    """A user's message that has the puppet give these answers.

    Args:
        answers: As a ScriptedModel gives them, one after the other.
        delay: Seconds before each piece.
        chunk: Code points in a piece.
        fails: How often each answer breaks off in the middle before it comes whole.
    """
    return json.dumps({"answers": answers, "delay": delay, "chunk": chunk, "fails": fails}, ensure_ascii=False)


class Puppet(ModelBackend):
    def __init__(self) -> None:
        self.failed: dict[str, int] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelAnswer]:
        told = [index for index, message in enumerate(request.messages) if message["role"] == "user"]
        text = request.messages[told[-1]]["content"][0]["text"]
        given = sum(message["role"] == "assistant" for message in request.messages[told[-1] :])
        plan = json.loads(text) if text.startswith("{") else {"answers": [f"You said: {text}"]}
        if "clock" in plan:
            async for tick in _ticks(plan["clock"], plan["delay"]):
                yield tick
            return
        model = ScriptedModel(
            lambda *_: plan["answers"][given], chunk=plan.get("chunk", 7), delay=plan.get("delay", 0.002)
        )
        breaks = self._breaks(f"{len(told)}/{given}/{text}", plan.get("fails", 0))
        pieces = 0
        async for piece in model.stream(request):
            pieces += isinstance(piece, TextDelta)
            if breaks and pieces > 3:
                raise ModelError("the connection broke", passing=True)
            yield piece

    def _breaks(self, place: str, fails: int) -> bool:
        self.failed[place] = self.failed.get(place, 0) + 1
        return self.failed[place] <= fails


async def _ticks(count: int, pause: float) -> AsyncIterator[Delta | ModelAnswer]:
    """An answer that tells the time with each piece: for benchmarks."""
    said = ""
    for _ in range(count):
        await asyncio.sleep(pause)
        said += (tick := f"{time.time():.6f}\n")
        yield TextDelta(tick)
    yield ModelAnswer([{"text": said}])


@tool(read_only=True)
def look(n: int) -> str:
    """Look something up."""
    return f"Number {n}: 👩‍👩‍👧 found"


@tool(approval="owner", secrets=["card"])
def pay(amount: int, card: str = "") -> str:
    """Pay something."""
    return f"paid {amount}"


@tool(approval="staff")
def wipe(name: str) -> str:
    """Delete something."""
    return f"{name} is gone"


@tool(visible="staff")
def inspect(what: str) -> str:
    """Look behind the curtain."""
    return f"behind the curtain: {what}"


@tool(visible="name")
def rate(what: str) -> str:
    """Rate something, of which only the name is shown."""
    return f"rated: {what}"


def puppet() -> Agent:
    return Agent("puppet", model=Puppet(), tools=[look, pay, wipe, inspect, rate])
