"""What was said and done: messages, history, runs, events. Reading writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import inputs
from criogen_threads.engine import reads, siblings, trees, viewing
from criogen_threads.engine.chains import format_chain
from criogen_threads.engine.pools import in_database
from criogen_threads.engine.views import message_view
from criogen_threads.threads.base import Base
from criogen_threads.threads.syncing import blocking

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.models import Run


class Reading(Base):
    """The part of a handle that reads."""

    async def messages(self) -> list[dict[str, Any]]:
        """The stored conversation, oldest first: each with ``role`` and ``content``, a list of blocks.

        Raises:
            ThreadNotFoundError: ``thread_not_found``, as for every read: not this actor's to see.
        """
        await self._may("see")
        return await in_database(reads.messages, self.id)

    messages_sync = blocking(messages)
    get_history = messages
    get_history_sync = messages_sync

    async def get_context_window(self, n: int = 5) -> list[dict[str, Any]]:
        """The last ``n`` messages; 0 is none."""
        await self._may("see")
        return await in_database(reads.messages, self.id, inputs.limit(n, "n"))

    get_context_window_sync = blocking(get_context_window)

    async def get_last_message(self) -> dict[str, Any] | None:
        """The last message; None while nothing was said."""
        return next(iter(await self.get_context_window(1)), None)

    get_last_message_sync = blocking(get_last_message)

    async def siblings(self, message_id: str | UUID) -> list[dict[str, Any]]:
        """The messages with the same parent as this one, itself among them, in the order of their runs.

        Returns:
            Messages, each with ``current`` (it is on the branch that goes on), ``checkpoint``, the newest of its branch
            (``rewind`` there to switch to it), and ``before``, where to go back to so as to say something else in its
            place: a checkpoint, or "beginning". Empty for an unknown message.
        """
        await self._may("see")
        wanted = inputs.identifier(message_id)
        return [] if wanted is None else await in_database(siblings.siblings, self.id, wanted)

    siblings_sync = blocking(siblings)

    async def given(self, message_id: str | UUID) -> list[dict[str, Any]] | None:
        """What the model was given of the conversation for one of its answers: the agent's ``window`` decides.

        Returns:
            The messages, the summary first where there was one; None for what is no answer of this thread.
        """
        await self._may("see")
        wanted = inputs.identifier(message_id)
        return None if wanted is None else await in_database(_given, self.id, wanted)

    given_sync = blocking(given)

    async def history(self, limit: int = 20) -> list[dict[str, Any]]:
        """The checkpoints from the head back, newest first: ``id`` (for ``rewind``), ``version``, ``status``,
        ``source``, ``step``, ``run_id``, ``parent_id`` and ``created_at_ms``; with ``cut`` (True) the one behind which
        older ones were cut off."""
        await self._may("see")
        return await in_database(reads.history, self.id, inputs.limit(limit, "limit"))

    history_sync = blocking(history)

    async def runs(self, last: int | None = None) -> list[dict[str, Any]]:
        """The runs in their order of arrival; the ``last`` of them."""
        await self._may("see")
        return await in_database(reads.runs, self.id, None if last is None else inputs.limit(last, "last"))

    runs_sync = blocking(runs)

    async def run(self, run_id: str | UUID) -> dict[str, Any] | None:
        """One run of this thread; None when it is unknown."""
        await self._may("see")
        wanted = inputs.identifier(run_id)
        return None if wanted is None else await in_database(reads.run, self.id, wanted)

    run_sync = blocking(run)
    get_run = run
    get_run_sync = run_sync

    async def run_tree(self, run_id: str | UUID) -> dict[str, Any] | None:
        """A run of this thread with its calls, each with the run of the agent that it asked, and so on: with durations
        and what each cost. None when it is unknown."""
        found = await self._found(run_id)
        return None if found is None else await in_database(trees.tree, found)

    run_tree_sync = blocking(run_tree)

    async def callers(self, run_id: str | UUID) -> list[dict[str, Any]]:
        """The chain of runs that led to a run of this thread, the one that people began first and itself last; empty
        when it is unknown."""
        found = await self._found(run_id)
        return [] if found is None else await in_database(trees.callers, found)

    callers_sync = blocking(callers)

    async def _found(self, run_id: str | UUID) -> Run | None:
        await self._may("see")
        wanted = inputs.identifier(run_id)
        return None if wanted is None else await in_database(reads.run_of, self.id, wanted)

    async def get_current_run(self) -> dict[str, Any] | None:
        """The run that the thread stands at: under way, waiting, failed or completed."""
        await self._may("see")
        return await in_database(reads.current_run, self.id)

    get_current_run_sync = blocking(get_current_run)

    async def get_events(
        self,
        *,
        run: str | UUID | None = None,
        type: str | None = None,
        agent: str | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Events in order; what is given of run, type and agent must all fit.

        Args:
            after: Only those with a higher ``seq``: what is new since an earlier call.
            limit: At most so many.
        """
        await self._may("see")
        filters: dict[str, Any] = {"type": type, "agent": agent}
        if not all(value is None or inputs.is_name(value) for value in filters.values()):
            return []
        if run is not None:
            filters["run"] = inputs.identifier(run)
            if filters["run"] is None:
                return []
        given = {name: value for name, value in filters.items() if value is not None}
        first = 0 if after is None else inputs.limit(after, "after")
        most = None if limit is None else inputs.limit(limit, "limit")
        return await in_database(reads.events, self.id, first, most, **given)

    get_events_sync = blocking(get_events)
    events = get_events
    events_sync = get_events_sync

    async def format_event_chain(self, event: str | UUID | dict[str, Any]) -> str:
        """The chain that leads to an event, as text; "" for an unknown one."""
        await self._may("see")
        wanted = inputs.identifier(event.get("id") if isinstance(event, dict) else event)
        return "" if wanted is None else format_chain(await in_database(reads.event_chain, self.id, wanted))

    format_event_chain_sync = blocking(format_event_chain)

    async def thread_state(self) -> dict[str, Any]:
        """Statistics: ``message_count``, ``last_activity_ms``, ``current_run_status``, ``tool_usage`` by name."""
        await self._may("see")
        return await in_database(reads.statistics, self.id)

    thread_state_sync = blocking(thread_state)


def _given(key: str, message_id: UUID) -> list[dict[str, Any]] | None:
    answer = reads.answer(key, message_id)
    return None if answer is None else [message_view(message) for message in viewing.given_for(answer)]
