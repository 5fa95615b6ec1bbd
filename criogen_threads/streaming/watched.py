"""One thread as a relay knows it: where it stands, its newest events, and the answer under way."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from criogen_threads.streaming.parts import OpenMessage

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from uuid import UUID

    from criogen_threads.engine.telling import Standing, Told

RECENT = 200
"""Events that are kept for cursors which are at most so far behind; the others read the database."""

REMEMBERED = 50
LATE_SECONDS = 2.0
"""Seconds that a live piece may travel: those of a message that was saved before may come after a thread is watched."""


class Watched:
    """What cursors read. Changed on the relay's loop only."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.standing: Standing | None = None
        self.recent: deque[Told] = deque(maxlen=RECENT)
        self.loaded = 0  # every event up to this number is in ``recent``, or older
        self.since = time.monotonic()
        self.known = False  # the database was read at least once
        self.open: OpenMessage | None = None
        self.certain = False  # ``open`` is the truth, None included
        self.gap = False  # text is missing before what came
        self.unverified = False  # whether ``open`` is saved already is to be asked
        self.doubted = False  # the process that runs the thread does not know ``open``
        self.heard = 0  # the newest number that anybody has told of
        self.over: OrderedDict[str, None] = OrderedDict()  # messages that are saved or void
        self.last: OpenMessage | None = None  # the one that was open before
        self.cursors: set[asyncio.Event] = set()
        self.frames: dict[Any, Any] = {}  # shared by cursors that stand at the same place

    @property
    def epoch(self) -> UUID | None:
        return None if self.standing is None else self.standing.thread_id

    def wake(self) -> None:
        """Have every cursor look again."""
        for cursor in self.cursors:
            cursor.set()

    def after(self, seq: int) -> list[Told] | None:
        """The events after a number, or None when the database has to be asked."""
        if seq >= self.loaded:
            return []
        if not self.recent or self.recent[0].event.seq > seq + 1:
            return None
        return [told for told in self.recent if told.event.seq > seq]

    @property
    def settled(self) -> bool:
        """Whether the events are known up to where live text may go on."""
        return self.loaded >= self.heard and not self.unverified

    def begins_with(self, message_id: str, text: str) -> bool:
        """Whether the text that was streamed of a message is how the saved one begins."""
        if self.last is None or self.last.message_id != message_id or message_id not in self.last.parts:
            return True
        return text.startswith(self.last.parts[message_id].text)

    # What was read -----------------------------------------------------------------------------------------------

    def stand(self, standing: Standing | None, told: list[Told]) -> None:
        """Take over what the database said: where the thread stands, and the events up to there."""
        if standing is None or standing.thread_id != self.epoch:
            self._begin(standing)
        self.standing, self.known = standing, True
        if standing is None:
            return
        for each in told:
            self._learn(each)
        if (told[-1].event.seq if told else self.loaded) < standing.seq:
            self.recent.clear()  # too far behind: cursors read the database
        self.loaded = max(self.loaded, standing.seq)
        if standing.state != "running":
            self.settle_open()

    def _begin(self, standing: Standing | None) -> None:
        """Another thread under this key, or none any more."""
        self.recent.clear()
        self.frames.clear()
        self.open, self.last, self.certain = None, None, standing is None
        self.loaded = 0 if standing is None else standing.seq
        self.heard = 0

    def _learn(self, told: Told) -> None:
        if told.event.seq <= self.loaded:
            return
        self.recent.append(told)
        if told.message is not None:
            self.settle(str(told.message.id))
        elif told.event.type in ("error", "run_complete"):
            self.settle_open()

    def settle(self, message_id: str) -> None:
        """A message is saved, or void: nothing live of it is told any more."""
        self.over[message_id] = None
        while len(self.over) > REMEMBERED:
            self.over.popitem(last=False)
        if self.open is not None and self.open.message_id == message_id:
            self.last, self.open = self.open, None
            self.gap, self.unverified, self.doubted, self.certain = False, False, False, True

    def settle_open(self) -> None:
        """The run is over, and with it the answer under way."""
        if self.open is not None:
            self.settle(self.open.message_id)
        self.certain = True

    # What is heard -----------------------------------------------------------------------------------------------

    def hear_piece(self, piece: Mapping[str, Any]) -> bool:
        """Add a live piece; False when text before it is missing."""
        message = piece["message"]
        if message in self.over:
            return True
        if self.open is None or self.open.message_id != message:
            if self.open is not None and message < self.open.message_id:
                return True  # late: a newer answer is under way
            is_next = self.open is None and self.certain and piece["offset"] == 0
            self.unverified = not is_next or time.monotonic() - self.since < LATE_SECONDS
            self.open, self.gap = OpenMessage(piece["run"], message), False
        part = self.open.part(piece["part"], piece["kind"], piece["name"])
        missing = piece["offset"] > part.length
        if missing:
            self.gap = True
            return False
        part.add(piece["text"][part.length - piece["offset"] :])
        self.certain = True
        return True

    def hear_snapshot(self, open: Mapping[str, Any] | None) -> None:
        """Take over what the process that runs the thread says of the answer under way."""
        self.certain = True
        if open is None or open["message"] in self.over:
            return
        if self.open is not None and self.open.message_id > open["message"]:
            return
        found = OpenMessage.of(dict(open))
        if self.open is None or self.open.message_id != found.message_id:
            self.open, self.unverified = found, True
        else:
            for name, part in found.parts.items():
                if part.length > self.open.part(name, part.kind, part.name).length:
                    self.open.parts[name] = part
        self.gap = False
