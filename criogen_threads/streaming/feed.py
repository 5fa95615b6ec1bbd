"""The feed of one client: a cursor into what the relay knows. It holds a place, not a queue."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from criogen_threads.engine import telling, transcript
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming import agui, rendering
from criogen_threads.streaming.approvals import approvals, interrupts
from criogen_threads.streaming.parts import ARGUMENTS, TEXT
from criogen_threads.streaming.relay import get_relay
from criogen_threads.streaming.wires import Open, live, withdraw

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.telling import Standing, Told
    from criogen_threads.models import Thread
    from criogen_threads.streaming.showing import Viewer
    from criogen_threads.streaming.watched import Watched
    from criogen_threads.streaming.wires import Wire

PAGE = 25
"""Events that are read from the database at once."""

SHARED = 60
"""Frames that a relay keeps of a thread for those who stand at the same place."""


@dataclass
class Frame:
    """What one domain event, one live piece or one change of state says."""

    seq: int | None
    run: str | None
    events: list[Wire]
    extra: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        return json.dumps(self.whole, ensure_ascii=False, separators=(",", ":"))

    @property
    def whole(self) -> dict[str, Any]:
        return {"seq": self.seq, "run": self.run, **self.extra, "events": self.events}

    @cached_property
    def size(self) -> int:
        return len(self.text.encode())


class Resync(Exception):
    """What the client has is not of this thread as it is now: it has to read it anew."""


class Feed:
    """One client's cursor.

    Args:
        key: The thread's key.
        viewer: Who watches.
        html: Whether frames carry rendered Markdown.
    """

    def __init__(self, key: str, viewer: Viewer, *, html: bool = False) -> None:
        self.key = key
        self.viewer = viewer
        self.html = html
        self.changed = asyncio.Event()
        self.epoch: UUID | None = None
        self.seq = 0
        self.open = Open()
        self.announced: tuple[Any, ...] = ()
        self.html_end = 0
        self._watched: Watched | None = None

    @property
    def watched(self) -> Watched:
        if self._watched is None:
            raise RuntimeError("the feed was not started")
        return self._watched

    @property
    def standing(self) -> Standing | None:
        return self.watched.standing

    async def start(
        self, epoch: str | None = None, after: int | None = None, message: str | None = None, offset: int = 0
    ) -> None:
        """Begin behind an event: first what was missed, then live.

        Args:
            epoch: The thread's id as the client knows it; None for one that knows nothing.
            after: The newest ``seq`` that the client has; None for none of what is past.
            message: The half answer that the client has, and ``offset`` how much of it, in code points.

        Raises:
            Resync: Another thread has this key now, or it never had such an event.
        """
        if self._watched is None:
            self._watched = await get_relay().watch(self.key, self.changed)
        standing = self.watched.standing
        self.epoch = standing.thread_id if standing else None
        newest = standing.seq if standing else 0
        if (epoch is not None and epoch != str(self.epoch)) or (after or 0) > newest:
            raise Resync
        self.seq = newest if after is None else after
        self.open, self.announced, self.html_end = Open(), (), 0
        if self.epoch is not None:
            begun = await in_database(telling.unfinished_at, self.epoch, self.seq)
            if begun is not None:
                self.open.run, self.open.attempt = str(begun[0]), begun[1]
        if message is not None:
            self.open.message, self.open.parts = message, {message: (TEXT, offset)}
        self.changed.set()

    def leave(self) -> None:
        """Watch no more."""
        if self._watched is not None:
            get_relay().leave(self._watched, self.changed)
            self._watched = None

    def look_again(self) -> None:
        """Read the database soon: something was changed, and nobody may have told."""
        if self._watched is not None:
            get_relay().look_again(self._watched)

    @property
    def appeared(self) -> bool:
        """Whether the thread was made since: somebody has to say whether this client may see it."""
        return self.epoch is None and self.watched.epoch is not None

    def adopt(self) -> None:
        """Go on from the beginning of the thread that has appeared."""
        self.epoch, self.seq = self.watched.epoch, 0

    def shows(self, thread: Thread | None) -> bool:
        """Whether this is the thread that the policy was asked about: its key may be another's since."""
        return self.epoch == (None if thread is None else thread.pk)

    @property
    def behind(self) -> bool:
        """Whether events are missing that are saved already."""
        return self.seq < self.watched.loaded

    # Reading -----------------------------------------------------------------------------------------------------

    async def read(self) -> list[Frame]:
        """The next frames, in order; empty when there is nothing new: wait for ``changed``.

        Raises:
            Resync: The thread is gone, or another one has its key.
        """
        if self.watched.epoch != self.epoch:
            raise Resync
        while told := await self._told():
            if frames := [frame for each in told if (frame := await self._saved(each)) is not None]:
                return frames
        if self.behind or not self.watched.settled:
            return []
        return self._withdrawn() or self._live() or await self._rendered() or await self._state()

    async def _told(self) -> list[Told]:
        found = self.watched.after(self.seq)
        if found is None and self.epoch is not None:
            found = await in_database(telling.events_after, self.epoch, self.seq, PAGE)
        return (found or [])[:PAGE]

    async def _saved(self, told: Told) -> Frame | None:
        """The frame of one event, shared by all who stand at the same place."""
        mark = (told.event.seq, self.open.mark(), self.viewer.audience, self.html)
        frames = self.watched.frames
        if mark not in frames:
            if len(frames) > SHARED:
                frames.clear()
            frames[mark] = await self._project(told)
        frame, half = frames[mark]
        self.open, self.seq = half.copy(), told.event.seq
        if self.open.message is None:
            self.html_end = 0
        return frame  # type: ignore[no-any-return]

    async def _project(self, told: Told) -> tuple[Frame | None, Open]:
        half, message, consistent = self.open.copy(), told.message, True
        extra: dict[str, Any] = {"agent": told.event.agent}
        if message is not None and message.role == "assistant" and told.event.type == "message":
            text = transcript.text_of(message.content)
            consistent = self.watched.begins_with(str(message.id), text)
            if self.html and text:
                extra["html"] = await rendering.rendered(text)
        events = agui.project(half, told, self.key, self.viewer, consistent=consistent)
        if told.run is not None and told.run.client_id:
            extra["client_id"] = told.run.client_id
        run = str(told.event.run_id) if told.event.run_id else None
        return (Frame(told.event.seq, run, events, extra) if events else None), half

    def _withdrawn(self) -> list[Frame]:
        """The half answer of this client, when it is not the one under way."""
        watched, mine = self.watched, self.open.message
        if mine is None or not (watched.certain or watched.open is not None):
            return []
        if watched.open is not None and watched.open.message_id == mine:
            return []
        self.html_end = 0
        return [Frame(None, self.open.run, withdraw(self.open))]

    def _live(self) -> list[Frame]:
        half = self.watched.open
        if half is None or self.standing is None:
            return []
        agent = self.standing.agent or ""
        frames = []
        for name, part in half.parts.items():
            offset = self.open.parts.get(name, ("", 0))[1]
            if part.length <= offset or (part.kind == ARGUMENTS and not self.viewer.sees_live(agent, part.name)):
                continue
            frames.append(self._piece(half.run_id, half.message_id, name, part, offset, agent))
        return frames

    def _piece(self, run: str, message: str, name: str, part: Any, offset: int, agent: str) -> Frame:
        mark = (message, name, offset, part.length, name in self.open.parts)
        frames = self.watched.frames
        if mark not in frames:
            events = live(self.open.copy(), message, name, part.kind, part.name, part.text[offset:], offset, agent)
            place = {"agent": agent, "message": name, "offset": offset, "end": part.length}
            if len(frames) > SHARED:
                frames.clear()
            frames[mark] = Frame(None, run, events, place)
        self.open.message = message
        self.open.parts[name] = (part.kind, part.length)
        return frames[mark]  # type: ignore[no-any-return]

    async def _rendered(self) -> list[Frame]:
        """HTML of the blocks that are complete in the answer under way."""
        half = self.watched.open
        part = half.parts.get(half.message_id) if half is not None and self.html else None
        if half is None or part is None:
            return []
        start, end = self.html_end, rendering.closed(part.text, self.html_end)
        if end <= start or part.length > rendering.MOST_CHARACTERS:
            return []
        html = await rendering.rendered(part.text[start:end])
        if html is None or self.open.message != half.message_id:
            return []
        self.html_end = end
        place = {"message": half.message_id, "offset": start, "end": end, "html": html}
        return [Frame(None, half.run_id, [], place)]

    async def _state(self) -> list[Frame]:
        """What no event says: that the run's process died, or that people are waited for."""
        standing = self.standing
        if standing is None or standing.seq != self.seq:
            return []
        run = str(standing.run_id) if standing.run_id else None
        seen = standing.seq if standing.state == "suspended" else 0  # what waits now may be something else
        mark = (standing.state, run, standing.pending, seen)
        if mark == self.announced:
            return []
        self.announced = mark
        if standing.state == "interrupted":
            self.open.run = self.open.run or run
            return [Frame(None, run, agui.interrupt(self.open), {"state": "interrupted"})]
        if standing.state == "suspended" and run is not None:
            pending = await approvals(standing, self.viewer)
            finished = agui.suspended(self.open, self.key, run, interrupts(pending)) if self.open.run else []
            return [Frame(None, run, finished, {"state": "suspended", "pending": pending})]
        return []
