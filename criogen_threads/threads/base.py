"""What every part of a handle stands on: the conversation's identity, and who may do what with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _

from criogen_threads import errors, inputs
from criogen_threads.agents import Agent, find_tool, get_agent
from criogen_threads.engine import reads
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.rewinds import Rewind
from criogen_threads.engine.pools import in_database
from criogen_threads.engine.siblings import BEGINNING
from criogen_threads.policy import get_policy
from criogen_threads.threads.syncing import refuse_open_transaction

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Locked
    from criogen_threads.models import Thread, ToolCall


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

    async def _may(self, verb: str) -> bool:
        """Whether the thread exists, once it is clear that the actor may do this with it.

        Raises:
            ThreadNotFoundError: ``thread_not_found``: not this actor's to see.
            PermissionDeniedError: ``permission_denied``.
        """
        if self.actor is None:
            return True
        return await in_database(self._permitted, verb)

    def _agent(self, wanted: str | Agent) -> Agent:
        """An agent that a caller names.

        Raises:
            AgentNotFoundError: ``agent_not_found``.
        """
        if isinstance(wanted, Agent):
            return wanted
        return self.agent if wanted == self.agent.name else get_agent(wanted)

    async def _may_use(self, agent: Agent) -> None:
        """Raises PermissionDeniedError (``permission_denied``) where the actor may not talk to this agent."""
        if self.actor is not None and not await in_database(get_policy().use, self.actor, agent.name):
            raise errors.PermissionDeniedError

    async def _may_change(self, verb: str) -> bool:
        """As ``_may``, for calls that wait for commits of their own.

        Raises:
            InTransactionError: ``in_transaction``: the caller's own open transaction would wait for itself.
        """
        await refuse_open_transaction()
        return await self._may(verb)

    def _wish(self, checkpoint_id: Any) -> Rewind:
        """Where to go back to, and whether this actor may.

        Raises:
            CheckpointNotFoundError: ``checkpoint_not_found``.
        """
        target = inputs.identifier(checkpoint_id)
        if target is None and checkpoint_id != BEGINNING:
            raise errors.CheckpointNotFoundError
        return Rewind(target, Asker.of(self.actor), None if self.actor is None else self._may_go_back)

    def _may_go_back(self, locked: Locked, target: UUID | None) -> None:
        """Refuse to go back behind calls that changed something: the model would make them again."""
        thread = reads.thread(locked.key)
        left = reads.calls_left_behind(locked.id, locked.message_id, target)
        changed = [call for call in left if not is_read_only(call)]
        if thread is not None and changed and not get_policy().undo(self.actor, thread, changed):
            names = sorted({call.name for call in changed})
            raise errors.PermissionDeniedError(_("this would go back behind calls that changed something"), tools=names)

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


def is_read_only(call: ToolCall) -> bool:
    """By the tool as it is today; of one that is gone nobody knows."""
    tool = find_tool(call.agent, call.name)
    return tool is not None and tool.read_only
