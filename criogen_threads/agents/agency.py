"""Agencies: several agents that work on one conversation."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import options as check
from criogen_threads.agents.agent import Agent, checked_name
from criogen_threads.agents.delegation import Delegate, HandOver
from criogen_threads.agents.schema import shorten
from criogen_threads.errors import AgentNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from criogen_threads.agents.context import ToolContext
    from criogen_threads.agents.options import Visible
    from criogen_threads.threads import Reply, ThreadHandle


class Agency:
    """Agents by name, who of them may ask whom, and what all of them are told.

    An asked agent works in a run and a conversation of its own: one for each conversation that asks, which it
    remembers the next time. A conversation that is handed over goes on with the other agent, which sees all of it.
    An agent belongs to one agency.

    Args:
        name: 1 to 100 letters, digits, ``_``, ``-`` and ``.``; unique among the agencies of the site.
        entry: The agent that a conversation begins with.
        specialists: The others.
        instructions: What every agent is told before its own instructions: text, or a synchronous function of the
            ToolContext that returns it.
        delegates: Who may ask whom, by name. By default the entry may ask every specialist, and nobody else anybody.
        hands_over: Who may leave the conversation to whom, by name. By default nobody.
        max_depth: How many levels of asking there may be below the agent that the user speaks with. Default 3.
        visible: Who sees that agents ask each other, and what: "all", only the tool's "name", or "staff". Other than
            with "all", the conversations of asked agents are for staff only.

    Raises:
        ImproperlyConfigured: One of these is not possible. The text names the agency.
    """

    def __init__(
        self,
        name: str,
        *,
        entry: Agent,
        specialists: Sequence[Agent] = (),
        instructions: str | Callable[[ToolContext], str] = "",
        delegates: Mapping[str, Sequence[str]] | None = None,
        hands_over: Mapping[str, Sequence[str]] | None = None,
        max_depth: int = 3,
        visible: Visible = "all",
    ) -> None:
        owner = f"Agency {name!r}"
        self.name = checked_name(owner, name)
        if iscoroutinefunction(instructions) or not (isinstance(instructions, str) or callable(instructions)):
            raise ImproperlyConfigured(f"{owner}: instructions must be text or a synchronous function.")
        self.instructions = instructions
        self.max_depth = check.count(owner, "max_depth", max_depth, least=1)
        self.agents: Mapping[str, Agent] = MappingProxyType(_by_name(owner, [entry, *specialists]))
        self.entry = entry
        by_default = {entry.name: [agent.name for agent in specialists]}
        self.delegates = self._who(owner, "delegates", by_default if delegates is None else delegates)
        self.hands_over = self._who(owner, "hands_over", hands_over or {})
        check.one_of(owner, "visible", visible, ("all", "name", "staff"))
        self.visible = visible
        tools = {name: self._tools(name, visible) for name in self.agents}
        for agent in self.agents.values():
            agent.refuse_to_join(owner, tools[agent.name])
        for agent in self.agents.values():
            agent.join(self, tools[agent.name])

    def _who(self, owner: str, option: str, given: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
        for name, others in given.items():
            if isinstance(others, str):
                raise ImproperlyConfigured(f"{owner}: {option} has one text for {name!r}, and not a list of names.")
            unknown = [each for each in (name, *others) if each not in self.agents]
            if unknown:
                raise ImproperlyConfigured(f"{owner}: {option} names {unknown[0]!r}, which is not one of its agents.")
            if name in others:
                raise ImproperlyConfigured(f"{owner}: {option} lets {name!r} turn to itself.")
        return MappingProxyType({name: tuple(dict.fromkeys(others)) for name, others in given.items() if others})

    def _tools(self, name: str, visible: Visible) -> list[Delegate | HandOver]:
        """What an agent needs to turn to the others."""
        tools: list[Delegate | HandOver] = []
        if others := self.delegates.get(name):
            tools.append(Delegate([self.agents[other] for other in others], self.max_depth, visible))
        if others := self.hands_over.get(name):
            tools.append(HandOver([self.agents[other] for other in others], visible))
        return tools

    def agent(self, wanted: str | Agent | None) -> Agent:
        """One of the agents, by its name or as it is; None is the entry.

        Raises:
            AgentNotFoundError: ``agent_not_found``: it is none of this agency's.
        """
        if wanted is None:
            return self.entry
        name = wanted.name if isinstance(wanted, Agent) else wanted
        found = self.agents.get(name) if isinstance(name, str) else None
        if found is None:
            shown = shorten(str(name), 100)
            raise AgentNotFoundError(f"The agency {self.name!r} has no agent {shown!r}.", agent=shown)
        return found

    async def create_thread(
        self, agent: str | Agent | None = None, *, thread_id: str | None = None, actor: Any = None
    ) -> ThreadHandle:
        """Begin a conversation in which nothing was said yet.

        Args:
            agent: Who answers in it; by default the entry.
            thread_id: Its id; by default one that nobody can guess.
            actor: Whose it is; None for the site's own code.

        Raises:
            AgentNotFoundError: ``agent_not_found``.
            InvalidThreadIdError: ``invalid_thread_id``.
            ThreadNotFoundError: ``thread_not_found``: another user has it.
            PermissionDeniedError: ``permission_denied``.
        """
        from criogen_threads.threads import agencies  # it needs the models

        return await agencies.create_thread(self, agent, thread_id, actor)

    def create_thread_sync(
        self, agent: str | Agent | None = None, *, thread_id: str | None = None, actor: Any = None
    ) -> ThreadHandle:
        """``create_thread`` for code without asyncio."""
        from criogen_threads.threads import agencies  # it needs the models

        return agencies.blocking(agencies.create_thread, self, agent, thread_id, actor)

    async def get_thread(self, thread_id: str, *, actor: Any = None) -> ThreadHandle | None:
        """A conversation of this agency; None where there is none that this actor may see."""
        from criogen_threads.threads import agencies  # it needs the models

        return await agencies.get_thread(self, thread_id, actor)

    def get_thread_sync(self, thread_id: str, *, actor: Any = None) -> ThreadHandle | None:
        """``get_thread`` for code without asyncio."""
        from criogen_threads.threads import agencies  # it needs the models

        return agencies.blocking(agencies.get_thread, self, thread_id, actor)

    async def get_completion(
        self,
        message: str | list[dict[str, Any]],
        *,
        thread_id: str | None = None,
        recipient_agent: str | Agent | None = None,
        actor: Any = None,
        **options: Any,
    ) -> Reply:
        """One turn.

        Args:
            message: Text, or a list of text, image and file blocks.
            thread_id: The conversation, which begins here where there is none yet; by default a new one.
            recipient_agent: Who answers this one message; by default the agent that the conversation is with.
            actor: The user who speaks; None for the site's own code.
            options: As ``send`` takes them, with what is merged into the thread's state.

        Returns:
            The reply; its ``status`` is "suspended" where the run, or that of an asked agent, waits for a person.

        Raises:
            AgentNotFoundError: ``agent_not_found``.
            ThreadNotFoundError: ``thread_not_found``: the conversation is not this agency's.
            CriogenError: As ``send``.
        """
        from criogen_threads.threads import agencies  # it needs the models

        return await agencies.get_completion(self, message, thread_id, recipient_agent, actor, options)

    def get_completion_sync(
        self,
        message: str | list[dict[str, Any]],
        *,
        thread_id: str | None = None,
        recipient_agent: str | Agent | None = None,
        actor: Any = None,
        **options: Any,
    ) -> Reply:
        """``get_completion`` for code without asyncio."""
        from criogen_threads.threads import agencies  # it needs the models

        return agencies.blocking(
            agencies.get_completion, self, message, thread_id, recipient_agent, actor, options
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def _by_name(owner: str, agents: Sequence[Any]) -> dict[str, Agent]:
    named: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise ImproperlyConfigured(f"{owner}: {agent!r} is not an Agent.")
        if agent.name in named:
            raise ImproperlyConfigured(f"{owner}: two of its agents have the name {agent.name!r}.")
        named[agent.name] = agent
    return named
