"""What stands in the database, to show that a refused call wrote nothing."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from tests.support import in_db, refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def standing() -> dict[str, int]:
    """How many rows there are of each kind, and every version and event number."""
    counts = {model.__name__: model.objects.count() for model in (Checkpoint, Event, Message, Run, Thread, ToolCall)}
    for thread in Thread.objects.all():
        counts |= {f"{thread.key} version": thread.version, f"{thread.key} events": thread.event_seq}
        counts[f"{thread.key} pending"] = thread.pending
    return counts


@asynccontextmanager
async def refused_without_a_trace(code: str) -> AsyncIterator[None]:
    """The block must be refused with this code, and leave every row as it was."""
    before = await in_db(standing)
    with refused(code):
        yield
    assert await in_db(standing) == before
