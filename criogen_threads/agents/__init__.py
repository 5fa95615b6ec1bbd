"""What a site's developer writes: agents and their tools."""

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
