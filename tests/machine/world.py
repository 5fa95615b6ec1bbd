"""The agent that the machine drives: what it does next is written in what it was told, and its tools count."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from criogen_threads.agents import ToolContext, ToolError, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from project.desk.models import CallBack
from tests.support import an_agent, call, is_valid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLAIN = ("quick", "in_thread", "broken", "book", "broken_book", "no_such_tool", "wrong_arguments")
APPROVED = ("pay", "pay_book", "pay_hang")
HANGING = ("hang", "hang_ask", "hang_report", "pay_hang")
ATOMIC = ("book", "broken_book", "pay_book")
ON_CRASH = {"hang": "rerun", "hang_ask": "ask", "hang_report": "report", "pay_hang": "ask"}
KINDS = (*PLAIN, *APPROVED, *HANGING[:-1])


class Gate:
    """Where hanging tools stop, until the machine lets them go on."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0

    async def wait(self) -> None:
        self.waiting += 1
        await self.open.wait()


class World:
    """What is outside of the thread: the effects of tools, and whether the model is well."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()  # of tools that are not atomic, by idempotency key
        self.amounts: dict[str, int] = {}
        self.problems: list[str] = []
        self.well = False
        self.gate = Gate()
        self.agent = an_agent(model=ScriptedModel(self.respond), tools=_tools(self), name="machine")

    def respond(self, messages: Sequence[Mapping[str, Any]], tools: object) -> Any:
        """The next answer by the plan in the last message of the user."""
        if not is_valid([dict(message) for message in messages]):
            self.problems.append(f"the model was given {json.dumps([dict(m) for m in messages])}")
        said = [position for position, message in enumerate(messages) if message["role"] == "user"][-1]
        plan = json.loads(messages[said]["content"][0]["text"])
        turn = sum(message["role"] == "assistant" for message in messages[said:])
        if turn == plan["fails"] and not self.well:
            raise ModelError("the model is down", passing=False)
        if turn < len(plan["rounds"]):
            return [_call(kind) for kind in plan["rounds"][turn]]
        return f"done {plan['id']}"

    def effect(self, context: ToolContext, amount: int = 0) -> str:
        self.effects[context.idempotency_key] += 1
        self.amounts[context.idempotency_key] = amount
        return f"effect of {context.idempotency_key}"

    async def hanging_effect(self, context: ToolContext, amount: int = 0) -> str:
        gate = self.gate
        said = self.effect(context, amount)
        await gate.wait()
        return said


def _call(kind: str) -> dict[str, Any]:
    if kind == "wrong_arguments":
        return call("quick", unknown=1)
    return call(kind, amount=1) if kind in APPROVED else call(kind)


def _row(context: ToolContext, amount: int = 0) -> str:
    CallBack.objects.create(phone=str(amount), when="now", note=context.idempotency_key)
    return "written"


def _tools(world: World) -> list[Any]:
    return [*_plain_tools(world), *_approved_tools(world), *_hanging_tools(world)]


def _plain_tools(world: World) -> list[Any]:
    @tool
    async def quick(context: ToolContext) -> str:
        return world.effect(context)

    @tool
    def in_thread(context: ToolContext) -> str:
        return world.effect(context)

    @tool
    def broken(context: ToolContext) -> str:
        world.effect(context)
        raise ToolError("broken")

    @tool(atomic=True)
    def book(context: ToolContext) -> str:
        return _row(context)

    @tool(atomic=True)
    def broken_book(context: ToolContext) -> str:
        _row(context)
        raise ToolError("broken")

    return [quick, in_thread, broken, book, broken_book]


def _approved_tools(world: World) -> list[Any]:
    @tool(approval="staff")
    def pay(context: ToolContext, amount: int) -> str:
        return world.effect(context, amount)

    @tool(approval="staff", atomic=True)
    def pay_book(context: ToolContext, amount: int) -> str:
        return _row(context, amount)

    @tool(approval="staff")
    async def pay_hang(context: ToolContext, amount: int) -> str:
        return await world.hanging_effect(context, amount)

    return [pay, pay_book, pay_hang]


def _hanging_tools(world: World) -> list[Any]:
    async def hanging(context: ToolContext) -> str:
        return await world.hanging_effect(context)

    names = [name for name in HANGING if name not in APPROVED]
    return [tool(name=name, description="Hangs.", on_crash=ON_CRASH[name])(hanging) for name in names]
