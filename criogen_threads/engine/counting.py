"""What a run has cost so far, and how much it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads.engine.journal import usages
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.pools import in_database

if TYPE_CHECKING:
    from criogen_threads.agents import Agent
    from criogen_threads.backends.base import Usage
    from criogen_threads.models import Run


class Account:
    """The steps and the tokens of one run; the tokens of those that it asked for count too."""

    def __init__(self, run: Run, step: int) -> None:
        self.run = run
        self.step = step
        self.usage: dict[str, Any] = dict(run.usage)
        self.below = 0

    def add(self, agent: str, used: Usage) -> None:
        """One request to an agent's model."""
        more = {
            "input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "requests": 1, **used.details,
        }  # fmt: skip
        usages.add(self.usage, more)
        if usages.AGENTS in self.usage:
            usages.add(self.usage[usages.AGENTS].setdefault(agent, {}), more)

    def tell_apart(self, agent: str) -> None:
        """More than this one agent works in the run from now on."""
        if usages.AGENTS not in self.usage:
            self.usage = {**self.usage, usages.AGENTS: {agent: dict(self.usage)}}

    async def look_below(self, agent: Agent) -> None:
        """Read what the runs that it asked for have cost, where the agent has a limit."""
        if agent.max_tokens is not None and agent.agency is not None:
            self.below = await in_database(usages.tokens_below, database(), self.run.id)

    def over_limit(self, agent: Agent) -> str:
        """Which limit of the agent is reached, in words; "" while none is."""
        if self.step - self.run.first_step >= agent.max_steps:
            return f"the run took {agent.max_steps} steps"
        own = int(self.usage.get("input_tokens", 0)) + int(self.usage.get("output_tokens", 0))
        tokens = own + self.below - self.run.first_tokens
        if agent.max_tokens is not None and tokens >= agent.max_tokens:
            return f"the run took {tokens} of {agent.max_tokens} tokens"
        return ""
