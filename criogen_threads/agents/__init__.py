"""What a site's developer writes: agents and their tools.

``agent`` and ``tool`` are what they write, ``context`` is what a tool is told, ``registry`` finds an agent by its name.
``signature`` reads a tool's function, ``schema`` and ``data_schema`` make and check its parameters, ``options`` its
options.
"""

from criogen_threads.agents.agent import Agent
from criogen_threads.agents.context import ToolContext
from criogen_threads.agents.registry import all_agents, get_agent, register, unregister
from criogen_threads.agents.schema import InvalidArguments
from criogen_threads.agents.tool import Tool, ToolError, tool

__all__ = [
    "Agent",
    "InvalidArguments",
    "Tool",
    "ToolContext",
    "ToolError",
    "all_agents",
    "get_agent",
    "register",
    "tool",
    "unregister",
]
