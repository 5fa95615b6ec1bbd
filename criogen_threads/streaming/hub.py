"""The hub: one a process. It hears this process's runs and tells the relays, here and over the channel layer.

It also knows the whole text of each answer that is under way here, which is what a relay with a gap asks for.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from criogen_threads import errors
from criogen_threads.engine import background, listening
from criogen_threads.engine import lease as leases
from criogen_threads.ids import new_id
from criogen_threads.streaming import layer
from criogen_threads.streaming.parts import ARGUMENTS, REASONING, TEXT, OpenMessage, part_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from criogen_threads.engine.listening import Change

COALESCE_SECONDS = (0.03, 0.04)
"""Live pieces of a thread are sent together: a frame a token would drown the sockets. The pause is drawn from between
these two, so that answers which began together are not all sent together."""

KINDS = {"text_delta": TEXT, "reasoning_delta": REASONING, "arguments_delta": ARGUMENTS}
SWEEP_SECONDS = 1.0


class Ear(Protocol):
    """A relay, as the hub knows it: called from any thread, it must return at once."""

    def heard(self, message: Mapping[str, Any]) -> None:
        """A message of the hub."""


class Stream:
    """What a thread's run says here: the open message, and how much of it was sent."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.open: OpenMessage | None = None
        self.sent: dict[str, int] = {}
        self.last = 0.0
        self.waiting = False
        self.held = ""  # the first half of a surrogate pair

    def begin(self, run_id: str, message_id: str) -> OpenMessage:
        if self.open is None or self.open.message_id != message_id:
            self.open, self.sent, self.held = OpenMessage(run_id, message_id), {}, ""
        return self.open

    def whole(self, text: str) -> str:
        """The text without half a character at its end: the half waits for the other one."""
        text, self.held = self.held + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.held = text[:-1], text[-1]
        if any("\ud800" <= character <= "\udfff" for character in text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text

    def take(self) -> list[dict[str, Any]]:
        """The pieces that were not sent yet."""
        pieces: list[dict[str, Any]] = []
        for name, part in self.open.parts.items() if self.open else ():
            offset = self.sent.get(name, 0)
            if self.open is not None and part.length > offset:
                pieces.append(
                    {
                        "type": "criogen.live", "key": self.key, "run": self.open.run_id,
                        "message": self.open.message_id, "part": name, "kind": part.kind, "name": part.name,
                        "offset": offset, "text": part.text[offset:],
                    }
                )  # fmt: skip
                self.sent[name] = part.length
        self.last, self.waiting = time.monotonic(), False
        return pieces


class Hub:
    """Implements ``listening.Watcher``."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: after a fork, and between tests."""
        self.id = str(new_id())
        self.ears: tuple[Ear, ...] = ()
        self.publisher = layer.Publisher()
        self._streams: dict[UUID, Stream] = {}
        self._lock = threading.RLock()
        self._starting = False

    def add(self, ear: Ear) -> None:
        with self._lock:
            self.ears = (*self.ears, ear)

    def remove(self, ear: Ear) -> None:
        with self._lock:
            self.ears = tuple(each for each in self.ears if each is not ear)

    # What the engine says --------------------------------------------------------------------------------------

    def live(self, key: str, thread_id: UUID, event: Mapping[str, Any]) -> None:
        with self._lock:
            stream = self._streams.get(thread_id)
            if stream is None:
                stream = self._streams[thread_id] = Stream(key)
                self._attend()
            if event["type"] == "discarded":
                stream.open = None
                self._tell(key, {"type": "criogen.discarded", "key": key, "message": event["message_id"]})
                return
            self._add(stream, event)
            self._send_soon(stream)

    def _add(self, stream: Stream, event: Mapping[str, Any]) -> None:
        kind, message = KINDS[event["type"]], event["message_id"]
        part = stream.begin(event["run_id"], message).part(
            part_id(message, kind, event.get("index", 0)), kind, event.get("tool_name", "")
        )
        part.add(stream.whole(event["arguments" if kind == ARGUMENTS else "text"]))

    def _send_soon(self, stream: Stream) -> None:
        """At once after a pause, so that a first token does not wait; else together with what follows it."""
        left = stream.last + random.uniform(*COALESCE_SECONDS) - time.monotonic()  # noqa: S311 (no secret)
        if stream.waiting:
            return
        if left <= 0:
            self._flush(stream)
        else:
            stream.waiting = True
            loop = background.loop()
            loop.call_soon_threadsafe(loop.call_later, left, self._flush, stream)

    def _flush(self, stream: Stream) -> None:
        with self._lock:
            for piece in stream.take():
                self._tell(stream.key, piece)

    def saved(self, change: Change) -> None:
        with self._lock:
            stream = self._streams.get(change.thread_id)
            messages = [str(message) for message in change.messages]
            if stream is not None and stream.open is not None:
                self._flush(stream)
                if stream.open.message_id in messages:
                    stream.open = None
            said = {"type": "criogen.saved", "key": change.key, "seq": change.seq, "messages": messages}
            self._tell(change.key, said)

    def stop(self, worker: UUID, run_id: UUID) -> None:
        if layer.shared_layer() is not None and worker != leases.current().id:
            channel = layer.worker_channel(worker)
            self.publisher.post("send", channel, {"type": "criogen.stop", "run": str(run_id)})

    def _tell(self, key: str, message: dict[str, Any]) -> None:
        for ear in self.ears:
            ear.heard(message)
        if layer.shared_layer() is not None:
            self.publisher.post("group_send", layer.group(key), {**message, "from": self.id})

    # What relays ask ---------------------------------------------------------------------------------------------

    def snapshot(self, key: str, thread_id: UUID) -> dict[str, Any] | None:
        """The answer under way in a thread that this process runs; None when it does not run it."""
        with self._lock:
            if thread_id not in leases.current().runs:
                return None
            stream = self._streams.get(thread_id)
            half = stream.open.snapshot() if stream is not None and stream.open is not None else None
            return {"type": "criogen.snapshot", "key": key, "open": half}

    def _attend(self) -> None:
        """Begin to hear requests from other processes, and to forget answers whose run is over."""
        if not self._starting:
            self._starting = True
            background.spawn(self._hear())

    async def _hear(self) -> None:
        while True:
            listener = asyncio.create_task(self._requests(leases.current().id))
            worker = leases.current()
            identity = worker.id
            while leases.current() is worker and worker.id == identity:
                await asyncio.sleep(SWEEP_SECONDS)
                self._sweep()
                if listener.done():
                    break
            listener.cancel()
            await asyncio.wait({listener})

    def _sweep(self) -> None:
        with self._lock:
            alive = leases.current().runs
            for thread_id in [each for each in self._streams if each not in alive]:
                del self._streams[thread_id]

    async def _requests(self, worker: UUID) -> None:
        shared = layer.shared_layer()
        while shared is not None:
            try:
                message = await shared.receive(layer.worker_channel(worker))
            except Exception:  # the layer is away: the beat still looks each second
                layer.logger.warning("The channel layer failed; requests are heard again soon", exc_info=True)
                await asyncio.sleep(SWEEP_SECONDS)
                continue
            self._answer(message)

    def _answer(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "criogen.stop":
            leases.stop_run(UUID(message["run"]), errors.RunCancelledError())
            return
        snapshot = self.snapshot(message["key"], UUID(message["thread"]))
        if snapshot is not None:
            self.publisher.post("send", message["reply"], snapshot)


hub = Hub()
os.register_at_fork(after_in_child=hub.reset)
listening.watch(hub)
