"""What the reception and its travel specialist say without a model: rules that depend on what was said alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from criogen_threads.backends.base import Block, ToolDefinition

    Answer = str | list[Block]

BILLING = re.compile(r"\b(?:order|refund|invoice|money|[A-Z]-\d{3,6})\b", re.IGNORECASE)
TRAVEL = re.compile(r"\b(?:train|trip|travel|journey)s?\b", re.IGNORECASE)
ROUTE = re.compile(r"\bfrom (\w+) to (\w+)", re.IGNORECASE)


def reception(messages: Sequence[Mapping[str, Any]], _tools: Sequence[ToolDefinition]) -> Answer:
    """Asks whoever knows, and tells what they said."""
    last = messages[-1]
    if last["role"] == "tool":
        return " ".join(_results(messages))
    said = _text(last)
    wanted = [name for name, words in (("billing", BILLING), ("travel", TRAVEL)) if words.search(said)]
    if not wanted:
        return "Hello! I can ask our billing about orders and refunds, and our travel desk about trains."
    return [
        {"tool_call": {"name": "delegate", "arguments": {"agent": f"reception.{name}", "message": said}}}
        for name in wanted
    ]


def travel(messages: Sequence[Mapping[str, Any]], _tools: Sequence[ToolDefinition]) -> Answer:
    """Looks trains up."""
    last = messages[-1]
    if last["role"] == "tool":
        found = last["content"][0]["tool_result"]
        if found["is_error"]:
            return str(found["content"])
        return f"Trains leave at {', '.join(found['content']['departures'])}."
    routes = ROUTE.findall(" ".join(_text(message) for message in messages if message["role"] == "user"))
    if not routes:
        return "From where to where do you travel?"
    origin, destination = routes[-1]
    return [{"tool_call": {"name": "find_trains", "arguments": {"origin": origin, "destination": destination}}}]


def _results(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """What came back to the last answer, in the order in which it asked."""
    asked = next(message for message in reversed(messages) if message["role"] == "assistant")
    order = [block["tool_call"]["id"] for block in asked["content"] if "tool_call" in block]
    results = [message["content"][0]["tool_result"] for message in messages[-len(order) :]]
    return [str(result["content"]) for result in sorted(results, key=lambda result: order.index(result["id"]))]


def _text(message: Mapping[str, Any]) -> str:
    return " ".join(block["text"] for block in message["content"] if "text" in block)
