"""Locking several threads: always in the order of their ids, and before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from criogen_threads.engine.journal.pen import lock
from criogen_threads.models import Thread

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Locked
    from criogen_threads.engine.journal.statements import Session


def lock_all(session: Session, threads: Iterable[UUID]) -> dict[UUID, Locked]:
    """These threads, locked; those that are gone are left out."""
    locks = {thread_id: lock(session, thread_id) for thread_id in sorted(set(threads))}
    return {thread_id: locked for thread_id, locked in locks.items() if locked is not None}


def lock_family(session: Session, key: str) -> list[Locked]:
    """A thread and those of the agents that were asked below it, locked, itself the first; empty without it.

    Nobody is asked for the first time meanwhile: that needs the lock of the thread that asks.
    """
    first = Thread.objects.using(session.alias).filter(key=key).values_list("pk", flat=True).first()
    if first is None:
        return []
    locks: dict[UUID, Locked] = {}
    while missing := set(family(session.alias, first)) - locks.keys():
        locks |= (found := lock_all(session, missing))
        if found.keys() != missing:
            break
    return [locks.pop(first), *locks.values()] if first in locks else []


def family(alias: str, thread_id: UUID) -> list[UUID]:
    """A thread and those of the agents that were asked in it, and in theirs."""
    found, level = [thread_id], [thread_id]
    while level:
        level = list(Thread.objects.using(alias).filter(parent__in=level).values_list("pk", flat=True))
        found += level
    return found
