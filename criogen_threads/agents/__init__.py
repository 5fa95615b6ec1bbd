"""What a site's developer writes: agents and their tools.

``agent``, ``agency`` and ``tool`` are what they write, ``context`` is what a tool is told, ``registry`` finds an agent
by its name, ``delegation`` has the tools by which the agents of an agency turn to each other. ``signature`` reads a
tool's function, ``schema`` and ``data_schema`` make and check its parameters, ``options`` its options, ``secrecy``
masks its secret arguments. ``window`` says how much of a conversation a model is given, ``handling`` has the hooks
around turns.
"""

from criogen_threads.agents.agency import Agency
from criogen_threads.agents.agent import Agent
from criogen_threads.agents.context import ToolContext
from criogen_threads.agents.delegation import Delegate, HandOver
from criogen_threads.agents.handling import Handling
from criogen_threads.agents.registry import (
    all_agents,
    find_tool,
    get_agency,
    get_agent,
    is_registered,
    register,
    unregister,
)
from criogen_threads.agents.schema import InvalidArguments
from criogen_threads.agents.tool import Tool, ToolError, tool
from criogen_threads.agents.window import LastTurns, Summary, Window

__all__ = [
    "Agency",
    "Agent",
    "Delegate",
    "HandOver",
    "Handling",
    "InvalidArguments",
    "LastTurns",
    "Summary",
    "Tool",
    "ToolContext",
    "ToolError",
    "Window",
    "all_agents",
    "find_tool",
    "get_agency",
    "get_agent",
    "is_registered",
    "register",
    "tool",
    "unregister",
]
