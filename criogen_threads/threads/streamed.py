"""The streamed form of a call that runs something: its events as they happen, then its reply."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from criogen_threads.engine.admission import Conduct
    from criogen_threads.engine.listening import Listener
    from criogen_threads.engine.replies import Reply

    Work: TypeAlias = Callable[[Listener], Coroutine[Any, Any, Reply]]

Events: TypeAlias = "AsyncGenerator[dict[str, Any]]"


def listening(conduct: Conduct, work: Work) -> aclosing[Events]:
    """The events of what this runs, then ``{"type": "reply", "reply": Reply}``; who leaves the block cancels it.

    Args:
        conduct: The call that runs it.
        work: Runs it to its end, and tells the listener that it is given.
    """
    return aclosing(_heard(conduct, work))


async def _heard(conduct: Conduct, work: Work) -> Events:
    events: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.ensure_future(work(events.put_nowait))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        yield {"type": "reply", "reply": task.result()}
    finally:
        if not task.done():
            conduct.cancel()
            await conduct.see_through(_end_of(task))


async def _end_of(task: asyncio.Future[Any]) -> None:
    await asyncio.wait({task})
    task.exception()
