"""Who watches, and what of a tool call that person is shown: ``redaction``, for the feed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from criogen_threads import redaction
from criogen_threads.agents.secrecy import shown_result
from criogen_threads.redaction import Audience

if TYPE_CHECKING:
    from collections.abc import Mapping

    from criogen_threads.models import Thread


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person at the other end."""

    user: Any
    audience: Audience = field(default_factory=Audience)

    @classmethod
    def of(cls, user: Any, thread: Thread | None) -> Viewer:
        """What a user is to a thread; asks the policy."""
        return cls(user, Audience() if thread is None else redaction.audience(user, thread))

    def sees(self, agent: str, tool: str) -> str:
        """How much of a tool's calls is shown: "all", "name", or "" for nothing."""
        return self.audience.shown(agent, tool)

    def sees_live(self, agent: str, tool: str) -> bool:
        """Whether arguments may be shown while they stream: half a JSON text cannot be cleaned of secrets."""
        return self.sees(agent, tool) == "all" and not self.audience.secrets(agent, tool)

    def arguments(self, agent: str, tool: str, arguments: Any) -> Any:
        """The arguments of a call as this person is shown them; {} where they are hidden."""
        if self.sees(agent, tool) != "all":
            return {}
        return redaction.masked(arguments, self.audience.secrets(agent, tool))

    def result(self, agent: str, result: Mapping[str, Any]) -> Any:
        """The content of a call's result as this person is shown it; "" where it is hidden."""
        return shown_result(result) if self.sees(agent, result["name"]) == "all" else ""

    def approval(self, agent: str, view: dict[str, Any]) -> dict[str, Any] | None:
        """An open approval as this person is shown it; None where nothing is."""
        return next(iter(redaction.approvals([view], self.audience, agent)), None)
