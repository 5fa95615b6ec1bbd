"""The save of an atomic tool: its writes and its result are one commit."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models.functions import Now

from criogen_threads.agents import ToolError
from criogen_threads.conf import settings
from criogen_threads.engine.journal import saves
from criogen_threads.engine.journal.holding import hold
from criogen_threads.engine.journal.writing import is_passing, write
from criogen_threads.models import Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Saved
    from criogen_threads.engine.journal.saves import Result
    from criogen_threads.engine.journal.statements import Session
    from criogen_threads.engine.journal.takes import Lease

logger = logging.getLogger("criogen_threads")


class BrokenTransaction(DatabaseError):
    """The tool swallowed an error of the database: what it wrote cannot be trusted."""


def atomic_result(
    lease: Lease,
    run_tool: Callable[[], Result],
    failed: Callable[[BaseException], Result],
    checkpoint_id: UUID,
    retries: int = 0,
) -> tuple[Saved, Result]:
    """Run a tool inside the very transaction that saves its result.

    Whatever crashes, the tool's writes and its result are both there or both not. The tool runs first, in a
    savepoint, and the thread is locked after it: nobody waits for the tool.

    Args:
        run_tool: Runs the tool; raises what the tool raises.
        failed: The result that says to the model how it failed.
        retries: How often a tool that raised anything but ToolError is run again.

    Raises:
        As ``saves.results``; nothing of the tool is kept then.
    """
    try:
        return _save(lease, run_tool, failed, checkpoint_id, retries)
    except IntegrityError as error:  # a deferred constraint, checked by the COMMIT itself
        logger.exception("An atomic tool's writes were refused at their commit")
        result = failed(error)
        return saves.results(lease, [result], checkpoint_id), result


@write
def _save(
    session: Session,
    lease: Lease,
    run_tool: Callable[[], Result],
    failed: Callable[[BaseException], Result],
    checkpoint_id: UUID,
    retries: int,
) -> tuple[Saved, Result]:
    result = _tried(session, run_tool, failed, retries)
    locked = hold(session, lease)
    _renew_worker(session, lease)
    return saves.append_results(session, locked, lease, [result], checkpoint_id), result


def _tried(
    session: Session, run_tool: Callable[[], Result], failed: Callable[[BaseException], Result], retries: int
) -> Result:
    """The tool's result; its writes are undone unless it ended well."""
    for remaining in range(retries, -1, -1):
        try:
            return _in_savepoint(session, run_tool)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if is_passing(error) and session.lost(error):
                raise  # a deadlock or a lost connection: the whole transaction runs again
            if not remaining or isinstance(error, ToolError):
                return failed(error)
            logger.warning("An atomic tool failed, and is run again", exc_info=True)
    raise AssertionError("unreachable")


def _in_savepoint(session: Session, run_tool: Callable[[], Result]) -> Result:
    connection = session.connection
    with transaction.atomic(using=session.alias):
        result = run_tool()
        if connection.needs_rollback:
            raise BrokenTransaction("the tool went on after an error of the database")
        if connection.vendor == "postgresql":
            connection.check_constraints()
        return result


def _renew_worker(session: Session, lease: Lease) -> None:
    """Where there is one writer at a time, the beat could not be written while the tool ran."""
    if not session.connection.features.has_select_for_update:
        worker = Worker.objects.using(session.alias).filter(pk=lease.worker)
        worker.update(expires_at=Now() + timedelta(seconds=settings.LEASE_SECONDS))
