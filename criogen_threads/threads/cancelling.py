"""Stopping a run: cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from criogen_threads import errors, inputs
from criogen_threads.engine import dispatch, driving, reads
from criogen_threads.engine import lease as leases
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.journal import families, posts
from criogen_threads.engine.listening import publish_stop
from criogen_threads.engine.pools import in_database
from criogen_threads.ids import new_id
from criogen_threads.threads.base import Base
from criogen_threads.threads.syncing import blocking

if TYPE_CHECKING:
    from uuid import UUID


class Cancelling(Base):
    """The part of a handle that stops runs."""

    async def cancel(self, run_id: str | UUID | None = None) -> bool:
        """Stop a run and wait until it has ended; it is saved as failed, ``retry()`` can go on.

        Args:
            run_id: Exactly this run; None for the one under way.

        Returns:
            True for a run that was live, waiting or in line; False for a finished or unknown one.
        """
        cancelled = await self._ask_to_stop(run_id)
        if cancelled is None:
            return False
        if cancelled.live:
            await self._until_ended(cancelled.run_id)
        return True

    cancel_sync = blocking(cancel, writes=True)
    cancel_run = cancel
    cancel_run_sync = cancel_sync

    async def ask_to_stop(self, run_id: str | UUID | None = None) -> bool:
        """``cancel`` without waiting: the run is marked and its process told, its end is saved a moment later.

        Returns:
            As ``cancel``.
        """
        return await self._ask_to_stop(run_id) is not None

    ask_to_stop_sync = blocking(ask_to_stop, writes=True)

    async def _ask_to_stop(self, run_id: str | UUID | None) -> posts.Cancelled | None:
        await self._may_change("cancel")
        wanted = None if run_id is None else inputs.identifier(run_id)
        if run_id is not None and wanted is None:
            return None
        cancelled = await in_database(posts.cancel, self.id, wanted, new_id())
        if cancelled is not None and cancelled.live and cancelled.holder is not None:
            leases.stop_run(cancelled.run_id, errors.RunCancelledError())
            publish_stop(cancelled.holder, cancelled.run_id)
        elif cancelled is not None:
            await self._let_others_know()
        return cancelled

    async def _let_others_know(self) -> None:
        """What the run had asked for ends with it; who had asked for it goes on without it."""
        top = await in_database(families.awake, self.id)
        if await in_database(reads.is_due, top):
            await in_database(dispatch.resume, top)

    async def _until_ended(self, run_id: UUID) -> None:
        """Wait for the save of a run that was asked to stop; where its process died, save it here."""
        conduct = Conduct()
        try:
            await driving.follow(conduct, run_id)
        except errors.ThreadInterruptedError:
            await in_database(posts.cancel, self.id, run_id, new_id())
            await self._let_others_know()
        except errors.CriogenError:
            return
