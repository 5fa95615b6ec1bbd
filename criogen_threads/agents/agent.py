"""Agents: a model, its instructions and its tools."""

from __future__ import annotations

import re
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import options as check
from criogen_threads.agents.handling import Handling
from criogen_threads.agents.tool import Tool
from criogen_threads.agents.window import Window
from criogen_threads.backends import resolve
from criogen_threads.backends.base import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from criogen_threads.agents.agency import Agency
    from criogen_threads.agents.context import ToolContext
    from criogen_threads.backends.base import ModelBackend
    from criogen_threads.threads import Reply, ThreadHandle

_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,100}")


class Agent:
    """What answers in a conversation.

    Args:
        name: 1 to 100 letters, digits, ``_``, ``-`` and ``.``; unique in the site.
        model: A model string such as "openai:gpt-5-mini", a pydantic-ai Model, or a ModelBackend.
        instructions: What the model is told before the conversation: text, or a synchronous function of the
            ToolContext that returns it.
        tools: What the model may call; each name once.
        max_steps: How many answers of the model one run may take. Default 25.
        max_tokens: Tokens, in and out, that one run may take. None: no limit.
        max_seconds: Seconds that one run may take. None: no limit.
        settings: Passed on to the model, such as ``{"temperature": 0}``.
        description: What the agent is for, for people and for other agents.
        window: How much of a conversation its model is given: ``Window()``, which is everything, ``LastTurns(n)`` or
            ``Summary(keep, every)``. What is stored is not changed by it.
        handling: The site's own hooks around its turns and their steps.

    Raises:
        ImproperlyConfigured: One of these is not possible. The text names the agent.
    """

    def __init__(
        self,
        name: str,
        *,
        model: Any,
        instructions: str | Callable[[ToolContext], str] = "",
        tools: Sequence[Tool] = (),
        max_steps: int = 25,
        max_tokens: int | None = None,
        max_seconds: check.Seconds | None = None,
        settings: Mapping[str, Any] | None = None,
        description: str = "",
        window: Window | None = None,
        handling: Handling | None = None,
    ) -> None:
        owner = f"Agent {name!r}"
        checked_name(owner, name)
        if model is None or model == "":
            raise ImproperlyConfigured(f"{owner}: it needs a model.")
        if iscoroutinefunction(instructions) or not (isinstance(instructions, str) or callable(instructions)):
            raise ImproperlyConfigured(f"{owner}: instructions must be text or a synchronous function.")
        self.name = name
        self.model = model
        self.instructions = instructions
        self.tools = _by_name(owner, tools)
        self.max_steps = check.count(owner, "max_steps", max_steps, least=1)
        self.max_tokens = None if max_tokens is None else check.count(owner, "max_tokens", max_tokens, least=1)
        self.max_seconds = check.seconds(owner, "max_seconds", max_seconds)
        self.settings: Mapping[str, Any] = MappingProxyType(dict(settings or {}))
        self.description = description
        for option, value, kind in (("window", window, Window), ("handling", handling, Handling)):
            if not isinstance(value, kind | None):
                raise ImproperlyConfigured(f"{owner}: {option} must be a {kind.__name__}, not {value!r}.")
        self.window = window or Window()
        self.handling = handling
        self.agency: Agency | None = None

    def refuse_to_join(self, agency: str, tools: Sequence[Tool]) -> None:
        """Raise ImproperlyConfigured where this agent cannot become one of an agency's."""
        if self.agency is not None:
            raise ImproperlyConfigured(f"{agency}: the agent {self.name!r} belongs to {self.agency.name!r} already.")
        _by_name(f"Agent {self.name!r}", [*self.tools.values(), *tools])

    def join(self, agency: Agency, tools: Sequence[Tool]) -> None:
        """Become one of an agency's agents, with the tools that turn to the others."""
        self.agency = agency
        self.tools = _by_name(f"Agent {self.name!r}", [*self.tools.values(), *tools])

    @cached_property
    def backend(self) -> ModelBackend:
        """The model, resolved at its first use, so that a site starts without its provider's key."""
        return resolve(self.model)

    def definitions(self) -> list[ToolDefinition]:
        """The tools as the model is shown them, always in the order in which they were given."""
        return [ToolDefinition(tool.name, tool.description, tool.parameters) for tool in self.tools.values()]

    @property
    def has_fixed_instructions(self) -> bool:
        """Whether no function of the site makes them, which may take a moment."""
        return all(isinstance(part, str) for part in self._instructions())

    def instructions_for(self, context: ToolContext) -> str:
        """The instructions for one request: what its agency tells all of its agents, and its own.

        Raises:
            Exception: Whatever the site's functions raise, or TypeError where one does not return text.
        """
        parts = [part if isinstance(part, str) else part(context) for part in self._instructions()]
        for text in parts:
            if not isinstance(text, str):
                raise TypeError(f"the instructions of the agent {self.name!r} are a {type(text).__name__}, not text")
        return "\n\n".join(text for text in parts if text)

    def _instructions(self) -> list[str | Callable[[ToolContext], str]]:
        return [self.instructions] if self.agency is None else [self.agency.instructions, self.instructions]

    def thread(self, key: str, actor: Any = None) -> ThreadHandle:
        """A handle on the conversation ``key``. Nothing is written until something is said.

        Args:
            key: 1 to 200 characters, none of them a slash, white space or control.
            actor: The user who speaks; None for the site's own code, which may do everything.

        Raises:
            InvalidThreadIdError: No thread can have this key.
        """
        from criogen_threads.threads import ThreadHandle  # it needs the models

        return ThreadHandle(key, agent=self, actor=actor)

    async def run(self, text: str, /, actor: Any = None, **state: Any) -> Reply:
        """One turn without a thread: the same loop on a conversation that is deleted at the end.

        Raises:
            CriogenError: As ``send`` does; ``approval_required`` where a tool needs an approval.
        """
        from criogen_threads.threads import run_once  # it needs the models

        return await run_once(self, text, actor, state)

    def run_sync(self, text: str, /, actor: Any = None, **state: Any) -> Reply:
        """``run`` for code without asyncio."""
        from criogen_threads.threads import run_once_sync  # it needs the models

        return run_once_sync(self, text, actor, state)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def checked_name(owner: str, name: Any) -> str:
    """The name of an agent or an agency; ImproperlyConfigured where it cannot be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ImproperlyConfigured(f"{owner}: a name has 1 to 100 letters, digits, '_', '-' and '.'.")
    return name


def _by_name(owner: str, tools: Sequence[Any]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise ImproperlyConfigured(f"{owner}: {tool!r} is not a Tool; is it missing its @tool?")
        if tool.name in named:
            raise ImproperlyConfigured(f"{owner}: two of its tools have the name {tool.name!r}.")
        named[tool.name] = tool
    return named
