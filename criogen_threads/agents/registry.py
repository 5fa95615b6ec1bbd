"""The agents of the site, by name."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents.agency import Agency
from criogen_threads.agents.agent import Agent
from criogen_threads.agents.schema import shorten
from criogen_threads.errors import AgentNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from criogen_threads.agents.tool import Tool

Registered = TypeVar("Registered", Agent, Agency)


@dataclass(frozen=True, slots=True, order=True)
class AgentsConflict:
    """Two modules that registered different agents, or agencies, under one name: the first one counts."""

    name: str
    module: str
    ignored_module: str
    kind: str = "agent"

    def __str__(self) -> str:
        return f"The {self.kind} {self.name!r} is registered by {self.module} and by {self.ignored_module}."


_agents: dict[str, tuple[Agent, str]] = {}
_agencies: dict[str, tuple[Agency, str]] = {}
_conflicts: set[AgentsConflict] = set()


def register(thing: Registered) -> Registered:
    """Make an agent known by its name, or an agency with all of its agents.

    Called again from the same module it replaces what it registered, so that a module can be reloaded. From another
    module it changes nothing and is remembered for the system check (``conflicts``): raising here would end
    the development server before the check can say so.

    Returns:
        The agent, or the agency.

    Raises:
        ImproperlyConfigured: It is neither.
    """
    module = str(sys._getframe(1).f_globals.get("__name__", ""))
    if isinstance(thing, Agency):
        _put(_agencies, thing, module, "agency")
        for agent in thing.agents.values():
            _put(_agents, agent, module, "agent")
    elif isinstance(thing, Agent):
        _put(_agents, thing, module, "agent")
    else:
        raise ImproperlyConfigured(f"register() takes an Agent or an Agency, not a {type(thing).__name__}.")
    return thing


def _put(known: dict[str, tuple[Registered, str]], thing: Registered, module: str, kind: str) -> None:
    registered, owner = known.get(thing.name, (thing, module))
    if registered is thing or owner == module:
        known[thing.name] = (thing, owner)
    else:
        _conflicts.add(AgentsConflict(thing.name, owner, module, kind))


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


def find_tool(agent: str, name: str) -> Tool | None:
    """An agent's tool as it is today; None where the agent or its tool is gone."""
    found = _agents.get(agent)
    return found[0].tools.get(name) if found else None


def is_registered(name: str) -> bool:
    """Whether there is an agent of this name."""
    return name in _agents


def get_agency(name: str) -> Agency:
    """The agency of this name.

    Raises:
        AgentNotFoundError: None is registered (code ``agent_not_found``).
    """
    try:
        return _agencies[name][0]
    except KeyError:
        shown = shorten(name, 100)
        raise AgentNotFoundError(f"No agency is registered under the name {shown!r}.", agency=shown) from None


def all_agents() -> list[Agent]:
    """Every registered agent, by name."""
    return [_agents[name][0] for name in sorted(_agents)]


def conflicts() -> Sequence[AgentsConflict]:
    """The names that two modules claim, for the system check."""
    return sorted(_conflicts)


def unregister(name: str) -> None:
    """Forget an agent, or an agency with its agents, and the conflicts about its name; for tests. An unknown name is
    not an error."""
    _agents.pop(name, None)
    agency, _ = _agencies.pop(name, (None, ""))
    for agent in agency.agents if agency else ():
        _agents.pop(agent, None)
    _conflicts.difference_update([conflict for conflict in _conflicts if conflict.name == name])
