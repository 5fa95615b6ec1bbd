"""What the database knows of the threads that a relay watches: read for all that have news in one visit."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from criogen_threads.engine import telling
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming.watched import RECENT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from uuid import UUID

    from criogen_threads.engine.telling import Standing, Told
    from criogen_threads.streaming.parts import OpenMessage
    from criogen_threads.streaming.watched import Watched

logger = logging.getLogger("criogen_threads")


@dataclass(frozen=True, slots=True)
class Question:
    """What is known of a thread, and the half answer of which it is to be said whether it is saved."""

    key: str
    epoch: UUID | None
    loaded: int
    half: OpenMessage | None

    @property
    def message_id(self) -> str | None:
        return None if self.half is None else self.half.message_id


class Reader:
    """One visit at a time; what is wished for meanwhile, by however many threads, is the next one.

    Args:
        spawn: Starts a task on the relay's loop.
    """

    def __init__(self, spawn: Callable[[Coroutine[Any, Any, None]], Any]) -> None:
        self._spawn = spawn
        self._wanted: dict[Watched, asyncio.Future[None]] = {}
        self._visiting = False

    def soon(self, watched: Watched) -> asyncio.Future[None]:
        """Have a thread read; done when its cursors were told to look."""
        wish = self._wanted.get(watched)
        if wish is None:
            wish = self._wanted[watched] = asyncio.get_running_loop().create_future()
            wish.add_done_callback(_heard)
        if not self._visiting:
            self._visiting = True
            self._spawn(self._visit())
        return wish

    async def now(self, watched: Watched) -> None:
        """Have a thread read, and wait for it. Raises what the database raised."""
        await asyncio.shield(self.soon(watched))

    async def _visit(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                await self._read(wanted)
        finally:
            self._visiting = False

    async def _read(self, wanted: dict[Watched, asyncio.Future[None]]) -> None:
        questions = [_question(watched) for watched in wanted]
        try:
            answers = await in_database(_ask, questions)
        except Exception as error:  # the database is away: the next look asks again
            logger.warning("The feed could not read its threads", exc_info=True)
            for wish in wanted.values():
                wish.set_exception(error)
            return
        for (watched, wish), question, answer in zip(wanted.items(), questions, answers, strict=True):
            _take(watched, question.half, *answer)
            watched.wake()
            wish.set_result(None)


def _heard(wish: asyncio.Future[None]) -> None:
    """Most of those who wish do not wait: what the database raised is logged, and no news to the loop."""
    if not wish.cancelled():
        wish.exception()


def _question(watched: Watched) -> Question:
    half = watched.open if watched.unverified else None
    return Question(watched.key, watched.epoch, watched.loaded, half)


def _take(
    watched: Watched, half: OpenMessage | None, standing: Standing | None, told: list[Told], is_stored: bool
) -> None:
    if half is not None and (is_stored or watched.doubted):
        watched.settle(half.message_id)
    elif half is not None and watched.open is half:
        watched.unverified = False
    watched.stand(standing, told)


def _ask(questions: Sequence[Question]) -> list[tuple[Standing | None, list[Told], bool]]:
    """For each thread where it stands, the events since (none where they are too many), whether the half is saved."""
    standings = telling.standings({question.key for question in questions})
    stored = telling.stored({question.message_id for question in questions if question.message_id})
    found = [standings.get(question.key) for question in questions]
    behind = {
        standing.thread_id: question.loaded
        for question, standing in zip(questions, found, strict=True)
        if standing is not None and standing.thread_id == question.epoch
        and 0 < standing.seq - question.loaded <= RECENT
    }  # fmt: skip
    events = telling.events_since(behind)
    return [
        (standing, _up_to(standing, events), question.message_id in stored)
        for question, standing in zip(questions, found, strict=True)
    ]


def _up_to(standing: Standing | None, events: dict[UUID, list[Told]]) -> list[Told]:
    if standing is None:
        return []
    return [told for told in events.get(standing.thread_id, ()) if told.event.seq <= standing.seq]
