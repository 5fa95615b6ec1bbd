"""Taking up what dead processes left: unfinished runs, queued ones, approvals out of time, ephemeral threads."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.conf import settings
from criogen_threads.engine import admission, driving
from criogen_threads.engine import lease as leases
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.dispatch.executing import execute, execute_due
from criogen_threads.engine.journal import families, leftovers, lines, posts, rewinds, visiting, workers
from criogen_threads.engine.pools import in_database
from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger("criogen_threads")


@dataclass(slots=True)
class Recovered:
    """How much was taken up."""

    expired: int = 0
    interrupted: int = 0
    answered: int = 0
    queued: int = 0
    ephemeral: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, each.name)} {each.name}" for each in fields(self))


async def recover() -> Recovered:
    """Take up everything that waits for nobody but a process, and run it to its end.

    Each thread is taken under its lock, so that any number of these may run at once: one wins, once.
    """
    found = Recovered()
    found.expired = await _each(leftovers.overdue, lambda key: in_database(posts.expire, key))
    found.ephemeral = await _each(leftovers.left_behind, lambda key: in_database(rewinds.delete, key))
    found.interrupted = await _each(leftovers.interrupted, _retry)
    found.answered = await _each(leftovers.due, execute_due)
    found.queued = await _each(lambda: leftovers.forsaken(leases.current().id), execute)
    await _each(leftovers.silent, lambda thread: in_database(lines.pass_over, thread))
    await in_database(workers.forget_dead)
    await in_database(visiting.forget_old)
    return found


async def _each(look: Callable[[], list[Any]], work: Callable[[Any], Coroutine[Any, Any, Any]]) -> int:
    """Do something for all that a look finds, ``MAX_RUNS`` at once."""
    slots = asyncio.Semaphore(settings.MAX_RUNS)

    async def in_a_slot(name: Any) -> None:
        async with slots:
            await work(name)

    names = await in_database(look)
    await asyncio.gather(*map(in_a_slot, names))
    return len(names)


async def _retry(key: str) -> None:
    """Continue a run whose process died."""
    conduct = Conduct()
    try:
        await in_database(families.awake, key)
        lease = await in_database(admission.retry, key, new_id())
        if lease is not None:
            await driving.run(conduct, lease)
    except errors.CriogenError as error:
        logger.info("The interrupted run of %s did not complete: %s (%s)", key, error, error.code)
