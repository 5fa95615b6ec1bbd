"""Who asks for a turn, as rows name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from criogen_threads.visitors import AnonymousVisitor

if TYPE_CHECKING:
    from criogen_threads.engine.journal.pen import Locked
    from criogen_threads.models import Run


@dataclass(frozen=True, slots=True)
class Asker:
    """A user, a visitor from an address, or, with none of them, the site's own code."""

    user_id: Any = None
    visitor: str = ""
    address: str = ""

    @classmethod
    def of(cls, actor: Any) -> Asker:
        """The actor of a handle; None is the site's own code."""
        if isinstance(actor, AnonymousVisitor):
            return cls(None, actor.visitor, actor.address)
        return cls(None if actor is None else actor.pk)

    @classmethod
    def of_run(cls, run: Run) -> Asker:
        """Who asked for a run."""
        return cls(run.actor_id, run.visitor, run.address)

    @property
    def is_site(self) -> bool:
        return self.user_id is None and not self.visitor

    def has(self, thread: Locked) -> bool:
        """Whether the thread is this asker's own."""
        return (thread.owner_id, thread.visitor) == (self.user_id, self.visitor)

    def columns(self) -> dict[str, Any]:
        """What a run says about who asked for it."""
        return {"actor_id": self.user_id, "visitor": self.visitor, "address": self.address}

    def named(self, role: str) -> dict[str, Any]:
        """What an event says about who did something; nothing where it was the site's own code."""
        if self.visitor:
            return {"visitor": True}
        return {} if self.is_site else {role: str(self.user_id)}


SITE = Asker()
"""The site's own code."""
