"""What a tool is told about the conversation that it works for."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Given to tools, approval functions and callable instructions.

    Args:
        thread: The thread's key, the id that the site chose.
        thread_id: The thread's own id; a deleted and recreated key has another one.
        run_id: The run that the call belongs to.
        agent: The name of the agent that runs.
        actor: The user whose turn it is; None for the site's own code.
        locale: The language of the turn, such as "de"; "" when none was given.
        state: The thread's state. A read-only copy: what a tool changes in it is not saved.
        call_id: Our own id of this tool call; None for instructions.
        idempotency_key: The same on every try of a call, so that another system can tell a repeat; "" for
            instructions.
        try_number: 1, and one more for each further try.
        conversation: The key of the thread that people speak in: ``thread`` itself, unless another agent asked here.
    """

    thread: str
    thread_id: UUID
    run_id: UUID
    agent: str
    actor: Any
    locale: str
    state: Mapping[str, Any]
    call_id: UUID | None = None
    idempotency_key: str = ""
    try_number: int = 1
    conversation: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "conversation", self.conversation or self.thread)
        # A copy, so that a tool that changes a nested value does not change what the engine saves next.
        object.__setattr__(self, "state", MappingProxyType(deepcopy(dict(self.state))))
