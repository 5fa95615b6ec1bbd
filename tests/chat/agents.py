"""The agents of the site whose pages have the chat, beside the support desk."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from criogen_threads.agents import Agency, Agent, register, tool
from criogen_threads.backends.scripted import ScriptedModel
from tests.streaming.puppet import puppet

if TYPE_CHECKING:
    from collections.abc import Sequence


def told(characters: int) -> str:
    """A text of this length in paragraphs."""
    line = "A line that is as long as lines are in the answers of those who have much to say. "
    return ("\n\n".join([line * 6] * (characters // (6 * len(line)) + 1)))[:characters]


def tell(messages: Sequence[Any], tools: Sequence[Any]) -> str:
    """As much as the last message asks for."""
    number = re.search(r"\d+", messages[-1]["content"][0]["text"])
    return told(int(number[0]) if number else 100)


register(puppet())
register(Agent("teller", description="Story teller", model=ScriptedModel(tell, chunk=400, delay=0.002)))


@tool(approval="owner")
def sign(page: int) -> str:
    """Sign a page."""
    return f"page {page} is signed"


def _script(*answers: Any) -> ScriptedModel:
    return ScriptedModel.of(*answers)


def _calls(name: str, *arguments: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"tool_call": {"name": name, "arguments": each}} for each in arguments]


office = Agency(
    "office",
    entry=Agent("office", model=_script(_calls("delegate", {"agent": "clerk", "message": "Sign"}), "It is signed.")),
    specialists=[Agent("clerk", model=_script(_calls("sign", {"page": 1}, {"page": 2}), "Signed."), tools=[sign])],
)
entrance = Agency(
    "entrance",
    entry=Agent("porter", description="The porter", model=_script(_calls("hand_over", {"agent": "guide"}))),
    specialists=[Agent("guide", description="The guide", model=_script("-", "I am the guide."))],
    hands_over={"porter": ["guide"]},
)
register(office)
register(entrance)
