"""Going back, deleting, and a thread's events of the site's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from asgiref.sync import iscoroutinefunction

from criogen_threads import errors, inputs
from criogen_threads.engine import reads
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.journal import families, posts, rewinds, trimming
from criogen_threads.engine.pools import in_database, in_tool_thread
from criogen_threads.engine.views import checkpoint_view, event_view
from criogen_threads.threads.base import Base
from criogen_threads.threads.syncing import blocking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from criogen_threads.agents import Agent


Archive: TypeAlias = "Callable[[list[dict[str, Any]]], Awaitable[Any] | Any]"


class Changing(Base):
    """The part of a handle that changes a thread other than by speaking."""

    async def rewind(
        self, checkpoint_id: str | UUID, *, on_busy: str | None = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Make an older checkpoint the head again; the next ``send`` or ``retry`` continues from there.

        Newer checkpoints stay, off the history, and can be rewound to again.

        Args:
            checkpoint_id: Of one of this thread; or "beginning", where nothing was said yet.
            on_busy: What to do while a run holds the thread: "wait", "reject" or "interrupt".
            timeout: Seconds to wait for it. Default ``BUSY_TIMEOUT``, 60.

        Returns:
            The new head, as ``history`` gives it.

        Raises:
            CheckpointNotFoundError: ``checkpoint_not_found``.
            ThreadBusyError: ``thread_busy``.
            ThreadDelegatedError: ``thread_delegated``: what asked agents were told goes back with whoever asked them.
            PermissionDeniedError: ``permission_denied``: also where it would go back behind a tool call that
                changed something, and the policy does not let this actor do that.
        """
        await self._may_change("rewind")
        wish = self._wish(checkpoint_id)
        conduct = Conduct(inputs.seconds(timeout, "timeout"))
        head = await conduct.see_through(
            conduct.once_free(rewinds.rewind, self.id, wish, on_busy=inputs.on_busy(on_busy), key=self.id)
        )
        await in_database(families.awake, self.id)  # the agents that were asked in it go back with it
        return checkpoint_view(head)

    rewind_sync = blocking(rewind, writes=True)

    async def switch(self, agent: str | Agent) -> None:
        """Go on with another agent from the next turn on; it sees the whole conversation.

        Raises:
            AgentNotFoundError: ``agent_not_found``.
            ThreadNotFoundError: ``thread_not_found``.
            ThreadDelegatedError: ``thread_delegated``.
            PermissionDeniedError: ``permission_denied``.
        """
        await self.describe(agent=agent)

    switch_sync = blocking(switch, writes=True)

    async def delete(self, *, on_busy: str | None = None, timeout: float | None = None) -> bool:
        """Delete the thread and everything of it.

        Returns:
            True if it existed.

        Raises:
            ThreadBusyError: ``thread_busy``.
            ThreadDelegatedError: ``thread_delegated``: it goes with the thread that asked in it.
        """
        await self._may_change("delete")
        conduct = Conduct(inputs.seconds(timeout, "timeout"))
        return await conduct.see_through(
            conduct.once_free(rewinds.delete, self.id, on_busy=inputs.on_busy(on_busy), key=self.id)
        )

    delete_sync = blocking(delete, writes=True)

    async def trim(
        self, keep: int, *, archive: Archive | None = None, on_busy: str | None = None, timeout: float | None = None
    ) -> int:
        """Cut off old history: everything before the last turns, on every branch, with its checkpoints.

        The conversation begins with the first message that is left; the checkpoint that stood there has ``cut``, and
        nothing older can be rewound to. The conversations of agents that were asked stay as they are.

        Args:
            keep: How many turns stay, 1 or more.
            archive: Called before with the messages of the conversation that go, as ``messages`` gives them, and may be
                async; what it raises is raised here, and nothing is cut off.

        Returns:
            How many messages are gone.

        Raises:
            ThreadBusyError: ``thread_busy``.
            ThreadNotFoundError: ``thread_not_found``.
            ThreadDelegatedError: ``thread_delegated``.
            PermissionDeniedError: ``permission_denied``: who may delete the thread may do this.
        """
        if inputs.limit(keep, "keep") < 1:
            raise errors.InvalidOptionError("keep is a number of turns, 1 or more")
        await self._may_change("delete")
        old, first = await in_database(reads.old_messages, self.id, keep)
        if archive is not None and first is not None:
            await _archived(archive, old)
        if first is None:
            return 0
        conduct = Conduct(inputs.seconds(timeout, "timeout"))
        return await conduct.see_through(
            conduct.once_free(trimming.cut, self.id, first, on_busy=inputs.on_busy(on_busy), key=self.id)
        )

    trim_sync = blocking(trim, writes=True)

    async def describe(
        self, *, title: str | None = None, metadata: dict[str, Any] | None = None, agent: str | Agent | None = None
    ) -> None:
        """Set the title, the metadata, the agent as ``switch`` does, or several of them in one write.

        Raises:
            InvalidStateError: ``invalid_state``: they cannot be stored.
            CriogenError: As ``switch``.
        """
        await self._may_change("send")
        wanted = None if agent is None else self._agent(agent)
        if wanted is not None:
            await self._may_use(wanted)
        given = {"title": title, "metadata": metadata}
        columns = {name: value for name, value in given.items() if value is not None}
        await in_database(posts.describe, self.id, columns, wanted.name if wanted else None)

    describe_sync = blocking(describe, writes=True)

    async def create_event(
        self,
        type: str,
        details: dict[str, Any] | None = None,
        *,
        run: str | UUID | None = None,
        agent: str | None = None,
        parent: str | UUID | None = None,
    ) -> dict[str, Any]:
        """Note an event of the site's own; agent and run are filled in where they are left out.

        Returns:
            The event, as ``get_events`` gives it.

        Raises:
            InvalidEventError: ``invalid_event``.
            ThreadNotFoundError: ``thread_not_found``.
            RunNotFoundError: ``run_not_found``.
        """
        inputs.event(type, details, agent, parent)
        await self._may_change("send")
        if run is not None and inputs.identifier(run) is None:
            raise errors.RunNotFoundError
        event = await in_database(
            posts.create_event, self.id, type, details, inputs.identifier(run) if run else None, agent,
            inputs.identifier(parent) if parent else None,
        )  # fmt: skip
        return event_view(event, None, None)

    create_event_sync = blocking(create_event, writes=True)


async def _archived(archive: Archive, old: list[dict[str, Any]]) -> None:
    if iscoroutinefunction(archive):
        await archive(old)
    else:
        await in_tool_thread(archive, old)
