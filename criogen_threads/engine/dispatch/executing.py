"""Executing what was handed over, in this process, to its end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from criogen_threads import errors
from criogen_threads.engine import admission, dispatch, driving
from criogen_threads.engine import lease as leases
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.journal import families, leftovers, posts, reopening
from criogen_threads.engine.pools import in_database
from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.takes import Lease

logger = logging.getLogger("criogen_threads")

LONGEST_PAUSE = 1.0


async def execute(run_id: UUID, stays: float = float("inf")) -> bool:
    """Run a queued run to its end, once it is first in line and its thread is free.

    It stays in line, and is left, where the thread waits for a person or for ``retry()``.

    Args:
        stays: Seconds to wait for the thread.

    Returns:
        False where the run is still in line and its thread was not free in time: hand it over once more.
    """
    conduct = Conduct(stays)
    pause = admission.FIRST_PAUSE
    try:
        if not await in_database(_claim, run_id):
            return True
        while (lease := await in_database(admission.start_queued, run_id, new_id())) is None:
            if asyncio.get_running_loop().time() >= conduct.deadline:
                return False
            await conduct.pause(pause)
            pause = min(LONGEST_PAUSE, pause * 1.5)
        await _run(conduct, lease)
    except errors.CriogenError as error:
        logger.info("The submitted run %s did not complete: %s (%s)", run_id, error, error.code)
    return True


async def execute_due(key: str) -> None:
    """Continue a run whose approvals are all answered, and those of the runs that it asked for."""
    conduct = Conduct()
    try:
        key = await in_database(families.awake, key)
        lease = await in_database(admission.resume, key)
        if lease is not None:
            await _run(conduct, lease)
    except errors.CriogenError as error:
        logger.info("The answered run of %s did not complete: %s (%s)", key, error, error.code)


async def execute_retry(run_id: UUID) -> None:
    """Continue a run whose retry was accepted."""
    conduct = Conduct()
    try:
        lease = await in_database(_take_accepted, run_id)
        if lease is not None:
            await _run(conduct, lease)
    except errors.CriogenError as error:
        logger.info("The retried run %s did not complete: %s (%s)", run_id, error, error.code)


async def _run(conduct: Conduct, lease: Lease) -> None:
    """Run to the end, and hand over what was left in line behind it."""
    try:
        await driving.run(conduct, lease)
    finally:
        if not leases.current().stopping and (left := await in_database(leftovers.left_in_line, lease.thread_id)):
            await in_database(dispatch.submit, left)


def _claim(run_id: UUID) -> bool:
    return posts.claim(run_id, leases.current().ensure())


def _take_accepted(run_id: UUID) -> Lease | None:
    return reopening.take_accepted(run_id, leases.current().ensure())
