"""One run as an AG-UI client sees it: from RUN_STARTED to RUN_FINISHED or RUN_ERROR, under the client's ids."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ag_ui.core import events as ag

from criogen_threads import errors, inputs
from criogen_threads.conf import settings
from criogen_threads.engine import background, reads, telling
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming import agui, history
from criogen_threads.streaming.approvals import interrupts
from criogen_threads.streaming.feed import Feed, Frame, Resync
from criogen_threads.streaming.showing import Viewer
from criogen_threads.streaming.sse import KEEP_ALIVE_SECONDS, as_json, changed, look_again, refusal
from criogen_threads.streaming.wires import PROTOCOL, Open, custom, wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ag_ui.core.types import RunAgentInput
    from django.http import HttpRequest

    from criogen_threads.models import Thread
    from criogen_threads.streaming.wires import Wire
    from criogen_threads.threads import ThreadHandle

logger = logging.getLogger("criogen_threads")

ENDS = ("RUN_FINISHED", "RUN_ERROR")
ID_FIELDS = ("messageId", "toolCallId")


class Attached:
    """A client that has joined a run.

    Args:
        thread: As the policy was asked about it: nothing is told of another one that has its key by now.
    """

    def __init__(
        self, handle: ThreadHandle, given: RunAgentInput, request: HttpRequest, thread: Thread | None, viewer: Viewer
    ) -> None:
        self.handle = handle
        self.given = given
        self.request = request
        self.thread = thread
        self.feed = Feed(handle.id, viewer)
        self.run = ""
        self.owns = False
        self.joined = False
        self.known: set[str] = set()  # ids that the client has, which are not told again
        self.ended = False
        self._lacks: list[Wire] | None = None
        self._recheck = time.monotonic() + settings.RECHECK_SECONDS

    # Joining -----------------------------------------------------------------------------------------------------

    async def watch(self) -> bool:
        """Begin to watch, before anything is sent; False where the key is another's since the policy was asked."""
        await self.feed.start()
        return self.feed.shows(self.thread)

    async def sent_before(self) -> UUID | None:
        """The run of this ``runId``, where it was sent before.

        Raises:
            InvalidOptionError: ``invalid_option``: no ``client_id`` can be so.
        """
        run_id = inputs.client_id(self.given.run_id)
        if self.thread is None or run_id is None:
            return None
        return await in_database(telling.run_of_client, self.thread.pk, run_id)

    async def prepare(self) -> None:
        """See what the client lacks of a run that waits, before an answer has it go on."""
        self._lacks = await self._snapshot(self._theirs())

    def wait_for(self, run: str) -> None:
        """Follow a run that was sent just now."""
        self.run, self.owns = run, True

    def join(self, run: str, *, owns: bool) -> None:
        """Follow a run that has begun; ``owns`` where this connection asked for it."""
        self.run, self.owns, self.joined = run, owns, True

    def leave(self) -> None:
        """Watch no more; a run that this connection asked for and that goes on is stopped, if the site says so."""
        self.feed.leave()
        if self.owns and not self.ended and settings.AGUI_CANCEL_ON_CLOSE:
            background.spawn(self.handle.ask_to_stop(self.run))
        self.owns = False

    # Telling -----------------------------------------------------------------------------------------------------

    async def events(self) -> AsyncIterator[str]:
        """The run as server-sent events. Leaving before its end cancels it, where the settings say so."""
        try:
            started = ag.RunStartedEvent(
                thread_id=self.given.thread_id, run_id=self.given.run_id, protocol_version=PROTOCOL
            )
            yield _data(wire(started))
            if self._lacks is not None:
                self.joined = True
            if self.joined:
                for event in await self._catch_up() if self._lacks is None else self._lacks:
                    yield _data(event)
            while not self.ended:
                async for text in self._next():
                    yield text
        except Resync:
            yield self._broken(errors.ThreadNotFoundError("The thread was deleted."))
        except errors.CriogenError as error:
            yield self._broken(error)
        except Exception:
            logger.exception("An AG-UI stream failed")
            yield self._broken(errors.InternalError())
        finally:
            self.leave()

    def _broken(self, error: errors.CriogenError) -> str:
        """The stream ends before its run, which goes on: it was not the client that left."""
        self.ended = True
        return _data(wire(ag.RunErrorEvent(message=error.shown, code=error.code)))

    async def _next(self) -> AsyncIterator[str]:
        feed = self.feed
        feed.changed.clear()
        if time.monotonic() > self._recheck:
            await self._look_again()
        if feed.appeared:
            await self._adopt()
        frames = await feed.read()
        for frame in frames:
            for event in await self._of(frame):
                yield _data(event)
            if self.ended:
                return
        if not frames and not await changed(feed, min(KEEP_ALIVE_SECONDS, self._recheck - time.monotonic())):
            yield ": still here\n\n"

    async def _look_again(self) -> None:
        """End the stream of somebody who may not see the thread any more, or whose run is gone."""
        self._recheck = time.monotonic() + settings.RECHECK_SECONDS
        if await in_database(reads.run_with_thread, self.run) is None:
            raise Resync
        seen = await look_again(self.feed, self.request)
        if seen.thread is not None and not seen.visible:
            raise refusal(seen)
        self.feed.viewer = await in_database(Viewer.of, seen.user, seen.thread)

    async def _adopt(self) -> None:
        """Go on in the thread that has appeared, if it is the one that the run began.

        Raises:
            Resync: It is another one.
        """
        found = await in_database(reads.run_with_thread, self.run)
        if found is None or found[1].pk != self.feed.watched.epoch:
            raise Resync
        self.thread = found[1]
        self.feed.viewer = await in_database(Viewer.of, self.handle.actor, self.thread)
        self.feed.adopt()

    async def _catch_up(self) -> list[Wire]:
        """For a run that had begun: what the client's history lacks, and its end where it is over."""
        row = await in_database(reads.run, self.handle.id, UUID(self.run))
        if row is None:
            raise Resync
        snapshot = await self._snapshot(self._theirs())
        if row["status"] == "completed":
            return [*snapshot, *self._end(agui.finished(self.handle.id, self.run))]
        if row["status"] == "failed":
            return [*snapshot, *self._end(agui.failed(self.handle.id, self.run, row["error_code"], row["last_error"]))]
        return snapshot

    def _theirs(self) -> list[Wire]:
        return [message.model_dump(mode="json", by_alias=True) for message in self.given.messages]

    async def _snapshot(self, theirs: list[Wire] | None, until: str = "") -> list[Wire]:
        """MESSAGES_SNAPSHOT where the client's history is not ours; always without one to compare."""
        if self.thread is None:
            raise Resync
        ours = await in_database(history.conversation, self.thread.pk, self.feed.viewer, until)
        self.known |= {message["id"] for message in ours}
        self.known |= {call["id"] for message in ours for call in message.get("toolCalls", ())}
        if theirs is not None and history.is_same(ours, theirs):
            return []
        return [{"type": "MESSAGES_SNAPSHOT", "messages": ours}]

    async def _of(self, frame: Frame) -> list[Wire]:
        """What a frame of the feed says to this client: only what is of its run."""
        if frame.run != self.run:
            return []
        before: list[Wire] = []
        if not self.joined:
            self.joined = True
            before = await self._snapshot(self._theirs(), self.run)  # said before it: is that what the client has?
        told = [event for event in frame.events if self._is_news(event)]
        if frame.extra.get("state") == "suspended":
            told = self._waiting(frame.extra["pending"])
        events = [each for event in told for each in self._under_its_ids(event)]
        if any(event.get("name") == "criogen.discarded" for event in events):
            events += await self._snapshot(None)
        return [*before, *events]

    def _is_news(self, event: Wire) -> bool:
        """Not what the client has: its own message, or one of a snapshot."""
        if event["type"] == "RUN_STARTED":
            return False
        if event["type"] == "TOOL_CALL_RESULT":
            return event["messageId"] not in self.known
        named = [event[name] for name in ID_FIELDS if isinstance(event.get(name), str)]
        return not any(name in self.known for name in named)

    def _under_its_ids(self, event: Wire) -> list[Wire]:
        if event.get("name") == "criogen.run_failed":
            value = event["value"]
            return self._end(agui.failed(self.handle.id, self.run, value["code"], value["message"]))
        if event["type"] in ENDS:
            return self._end(event)
        return [event]

    def _end(self, event: Wire) -> list[Wire]:
        """The last event: under the client's run id, and in words that an older client knows."""
        self.ended = True
        if event["type"] == "RUN_FINISHED":
            event = {**event, "runId": self.given.run_id, "threadId": self.given.thread_id}
            if event.get("outcome", {}).get("type") == "cancelled" and self.given.protocol_version is None:
                return [wire(ag.RunErrorEvent(message="Run cancelled by user", code="cancelled"))]
        return [event]

    def _waiting(self, pending: list[dict[str, Any]]) -> list[Wire]:
        """What this person may answer are interrupts; what others must answer is said."""
        others = [each for each in pending if not each["mine"]]
        said = [custom("waiting", pending=others)] if others else []
        mine = interrupts(pending)
        return [*said, *agui.suspended(Open(), self.handle.id, self.run, mine)] if pending else []


def _data(event: Wire) -> str:
    return f"data: {as_json(event)}\n\n"
