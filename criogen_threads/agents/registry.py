"""The agents of the site, by name."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents.agent import Agent
from criogen_threads.agents.schema import shorten
from criogen_threads.errors import AgentNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

AnyAgent = TypeVar("AnyAgent", bound=Agent)


@dataclass(frozen=True, slots=True, order=True)
class AgentsConflict:
    """Two modules that registered different agents under one name: the first one counts."""

    name: str
    module: str
    ignored_module: str

    def __str__(self) -> str:
        return f"The agent {self.name!r} is registered by {self.module} and by {self.ignored_module}."


_agents: dict[str, tuple[Agent, str]] = {}
_conflicts: set[AgentsConflict] = set()


def register(agent: AnyAgent) -> AnyAgent:
    """Make an agent known by its name.

    Called again from the same module it replaces the agent, so that a module can be reloaded. From another
    module it changes nothing and is remembered for the system check (``conflicts``): raising here would end
    the development server before the check can say so.

    Returns:
        The agent.

    Raises:
        ImproperlyConfigured: It is not an Agent.
    """
    if not isinstance(agent, Agent):
        raise ImproperlyConfigured(f"register() takes an Agent, not a {type(agent).__name__}.")
    module = str(sys._getframe(1).f_globals.get("__name__", ""))
    registered, owner = _agents.get(agent.name, (agent, module))
    if registered is agent or owner == module:
        _agents[agent.name] = (agent, owner)
    else:
        _conflicts.add(AgentsConflict(agent.name, owner, module))
    return agent


def get_agent(name: str) -> Agent:
    """The agent of this name.

    Raises:
        AgentNotFoundError: None is registered (code ``agent_not_found``).
    """
    try:
        return _agents[name][0]
    except KeyError:
        shown = shorten(name, 100)
        raise AgentNotFoundError(f"No agent is registered under the name {shown!r}.", agent=shown) from None


def all_agents() -> list[Agent]:
    """Every registered agent, by name."""
    return [_agents[name][0] for name in sorted(_agents)]


def conflicts() -> Sequence[AgentsConflict]:
    """The names that two modules claim, for the system check."""
    return sorted(_conflicts)


def unregister(name: str) -> None:
    """Forget an agent, and the conflicts about its name; for tests. An unknown name is not an error."""
    _agents.pop(name, None)
    _conflicts.difference_update([conflict for conflict in _conflicts if conflict.name == name])
