"""The agency of the crash tests: top asks middle, middle asks deep, and deep has the tools, one of which waits for a
person. Each model refuses any conversation but the expected one, or a beginning of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from criogen_threads.agents import Agency, Agent, Tool, ToolContext
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from project.desk.models import CallBack
from tests.crash.actors import ANSWERS, TEXTS, append

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.crash.actors import Ledger

CHAIN = ("top", "middle", "deep")


def _asks(agent: str, message: str) -> dict[str, Any]:
    return {"name": "delegate", "arguments": {"agent": agent, "message": message}}


def _said(*turns: list[Any]) -> list[dict[str, Any]]:
    """A conversation: of each turn what was said first, the calls with their results, and the last answer."""
    messages: list[dict[str, Any]] = []
    for text, *calls, answer in turns:
        messages.append({"role": "user", "content": [{"text": text}]})
        for call, result in calls:
            number = sum("tool_call" in message["content"][0] for message in messages) + 1
            asked = {"id": f"call-{number}", "arguments": {}, **call}
            told = {"id": f"call-{number}", "name": call["name"], "content": result, "is_error": False}
            messages.append({"role": "assistant", "content": [{"tool_call": asked}]})
            messages.append({"role": "tool", "content": [{"tool_result": told}]})
        messages.append({"role": "assistant", "content": [{"text": answer}]})
    return messages


CONVERSATIONS = {
    "top": _said(
        [TEXTS[0], (_asks("middle", "Arrange it."), "It is arranged."), ANSWERS[0]],
        [TEXTS[1], (_asks("middle", "They thank you."), "My pleasure."), ANSWERS[1]],
    ),
    "middle": _said(
        ["Arrange it.", (_asks("deep", "Book and pay."), "Booked and paid."), "It is arranged."],
        ["They thank you.", "My pleasure."],
    ),
    "deep": _said(
        ["Book and pay.", ({"name": "plain"}, {"found": 3}), ({"name": "book"}, "booked"), ({"name": "pay"}, "paid"),
         "Booked and paid."],
    ),
}  # fmt: skip


def build(ledger: Ledger) -> Agency:
    """The agency, new in each process."""

    def plain(context: ToolContext) -> dict[str, int]:
        """Looks something up."""
        ledger.effect("plain", context)
        return {"found": 3}

    def book(context: ToolContext) -> str:
        """Writes to the database of the site."""
        CallBack.objects.create(phone="1", when="now", note=context.idempotency_key)
        ledger.effect("book", context)
        return "booked"

    def pay(context: ToolContext) -> str:
        """Needs a person's consent."""
        ledger.effect("pay", context)
        return "paid"

    tools = {"deep": [Tool(plain), Tool(book, atomic=True), Tool(pay, approval="owner")]}
    agents = [Agent(name, model=ScriptedModel(_Strict(name, ledger)), tools=tools.get(name, ())) for name in CHAIN]
    delegates = {"top": ["middle"], "middle": ["deep"]}
    return Agency("chain", entry=agents[0], specialists=agents[1:], delegates=delegates)


class _Strict:
    def __init__(self, agent: str, ledger: Ledger) -> None:
        self.agent = agent
        self.ledger = ledger

    def __call__(self, messages: Sequence[Mapping[str, Any]], _tools: object) -> list[dict[str, Any]]:
        said, expected = [dict(message) for message in messages], CONVERSATIONS[self.agent]
        if said != expected[: len(said)] or len(said) == len(expected) or said[-1]["role"] == "assistant":
            append(self.ledger.refused_path, f"{self.agent}: {json.dumps(said)}")
            raise ModelError("this is not the expected conversation", passing=False)
        return list(expected[len(said)]["content"])
