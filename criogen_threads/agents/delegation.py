"""The tools of an agency: asking another agent, and handing the conversation over to it.

The engine carries them out itself; their functions run nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads.agents.tool import Tool, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from criogen_threads.agents.agent import Agent
    from criogen_threads.agents.options import Visible


class Delegate(Tool):
    """Asks another agent, which answers in a conversation and a run of its own.

    Args:
        agents: Those that may be asked.
        max_depth: How many levels of asking there may be below the agent that the user speaks with.
        visible: As for any tool.
    """

    max_depth: int

    def __init__(self, agents: Sequence[Agent], max_depth: int, visible: Visible = "all") -> None:
        super().__init__(
            _delegate,
            "delegate",
            "Ask another agent to do something, and read what it answers. It knows what you tell it here and what "
            f"you told it before, and nothing else of this conversation. The agents are: {_described(agents)}",
            _parameters(agents, message="What it is to do, with everything that it needs to know."),
            visible=visible,
            read_only=True,  # what the asked agent did is judged by its own calls
        )
        object.__setattr__(self, "max_depth", max_depth)

    def refusal(self, chain: Sequence[str], arguments: Mapping[str, Any]) -> str:
        """Why this agent cannot be asked from here, in words for the model; "" when it can.

        Args:
            chain: The agents that ask each other, from the one that the user speaks with to the one that calls.
            arguments: As ``validate`` returned them.
        """
        path = " → ".join(chain)
        if arguments["agent"] in chain:
            return f"{arguments['agent']} cannot be asked: it waits for your own answer ({path}). Answer it instead."
        if len(chain) > self.max_depth:
            return f"Nobody can be asked from here: {path} is as deep as it goes. Do it yourself."
        return ""


class HandOver(Tool):
    """Leaves the conversation to another agent, which goes on in the same turn and from then on.

    Args:
        agents: Those that may take it over.
        visible: As for any tool.
    """

    def __init__(self, agents: Sequence[Agent], visible: Visible = "all") -> None:
        super().__init__(
            _hand_over,
            "hand_over",
            "Leave the conversation to another agent. It sees everything that was said, and answers from now on. "
            f"The agents are: {_described(agents)}",
            _parameters(agents),
            visible=visible,
            read_only=True,
        )

    def refusal(self, chain: Sequence[str], arguments: Mapping[str, Any]) -> str:  # noqa: ARG002 (as Delegate's)
        """Why the conversation cannot be handed over from here, in words for the model; "" when it can."""
        if len(chain) > 1:
            return "You were asked by another agent, and cannot leave its conversation to anybody. Answer it instead."
        return ""


def _delegate(agent: str, message: str) -> str:
    raise ToolError(f"Only a run can ask {agent}: {message}")


def _hand_over(agent: str) -> str:
    raise ToolError(f"Only a run can be handed over to {agent}.")


def _described(agents: Iterable[Agent]) -> str:
    return "; ".join(f"{agent.name} ({agent.description})" if agent.description else agent.name for agent in agents)


def _parameters(agents: Sequence[Agent], **texts: str) -> dict[str, Any]:
    """Which agent, and further texts that must not be empty, each with its description."""
    properties: dict[str, Any] = {"agent": {"type": "string", "enum": [agent.name for agent in agents]}}
    for name, description in texts.items():
        properties[name] = {"type": "string", "pattern": r"\S", "description": description}
    return {"type": "object", "properties": properties, "required": list(properties)}
