"""What every part of a handle stands on: the conversation's identity, and who may do what with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import errors, inputs
from criogen_threads.engine import reads
from criogen_threads.engine.threads import in_database
from criogen_threads.policy import get_policy
from criogen_threads.threads.syncing import refuse_open_transaction

if TYPE_CHECKING:
    from criogen_threads.agents import Agent
    from criogen_threads.models import Thread


class Base:
    """A conversation as one caller sees it.

    Args:
        key: The thread's id, chosen by the site.
        agent: Who answers.
        actor: The user on whose behalf; None for the site's own code, which may do everything.

    Raises:
        InvalidThreadIdError: ``invalid_thread_id``.
    """

    def __init__(self, key: str, *, agent: Agent, actor: Any = None) -> None:
        self.id = inputs.thread_key(key)
        self.agent = agent
        self.actor = actor

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @property
    def actor_id(self) -> Any:
        return None if self.actor is None else self.actor.pk

    async def _may(self, verb: str) -> bool:
        """Whether the thread exists, once it is clear that the actor may do this with it.

        Raises:
            ThreadNotFoundError: ``thread_not_found``: not this actor's to see.
            PermissionDeniedError: ``permission_denied``.
        """
        if self.actor is None:
            return True
        return await in_database(self._permitted, verb)

    async def _may_change(self, verb: str) -> bool:
        """As ``_may``, for calls that wait for commits of their own.

        Raises:
            InTransactionError: ``in_transaction``: the caller's own open transaction would wait for itself.
        """
        await refuse_open_transaction()
        return await self._may(verb)

    def _permitted(self, verb: str) -> bool:
        thread = reads.thread(self.id)
        if thread is not None:
            self._require(verb, thread)
        return thread is not None

    def _require(self, verb: str, thread: Thread) -> None:
        policy = get_policy()
        if getattr(policy, verb)(self.actor, thread):
            return
        if policy.see(self.actor, thread):
            raise errors.PermissionDeniedError
        raise errors.ThreadNotFoundError
