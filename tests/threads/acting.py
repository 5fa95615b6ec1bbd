"""One tool, run in one turn."""

from __future__ import annotations

from typing import Any

from criogen_threads.agents import Tool
from tests.support import Heard, an_agent, call, is_valid


async def result_of(made: Tool, block: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run one turn in which the model asks for the tool; the result that it was given."""
    model = Heard([block or call(made.name)], "done")
    chat = an_agent(model=model, tools=[made]).thread("one")
    reply = await chat.send("Hi")
    assert (reply.status, reply.text) == ("completed", "done")
    assert is_valid(model.given[-1])
    result: dict[str, Any] = reply.messages[-2]["content"][0]["tool_result"]
    return result


def a_tool(function: Any, **options: Any) -> Tool:
    return Tool(function, name="act", **options)


def throw(error: BaseException) -> Any:
    raise error
