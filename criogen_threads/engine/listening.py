"""What a run tells those who watch it: live pieces as they come, and that something was saved, once it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from criogen_threads.backends.base import ArgumentsDelta, Delta, ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from uuid import UUID

logger = logging.getLogger("criogen_threads")

Listener: TypeAlias = Callable[[Mapping[str, Any]], None]
"""The caller of one run: called on the run's event loop with each event; it must return at once."""


class Watcher(Protocol):
    """Hears of all threads that this process writes; called from any thread, it must return at once."""

    def saved(self, change: Change) -> None:
        """Something of a thread is committed."""

    def live(self, key: str, thread_id: UUID, event: Mapping[str, Any]) -> None:
        """A live piece of an answer came, or the pieces of one are void."""

    def stop(self, worker: UUID, run_id: UUID) -> None:
        """A run was marked to stop; this worker has it."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit says to those who watch: the events up to ``seq``, and the ids of new messages."""

    key: str
    thread_id: UUID
    seq: int
    messages: Sequence[UUID] = ()


_watchers: tuple[Watcher, ...] = ()


def watch(watcher: Watcher) -> None:
    """Begin to tell a watcher."""
    global _watchers
    _watchers = (*_watchers, watcher)


def unwatch(watcher: Watcher) -> None:
    """Stop telling it."""
    global _watchers
    _watchers = tuple(each for each in _watchers if each is not watcher)


def publish_saved(change: Change) -> None:
    """Tell the watchers of a commit; what fails in one of them hurts nobody else."""
    for watcher in _watchers:
        with _logged():
            watcher.saved(change)


def publish_live(key: str, thread_id: UUID, event: Mapping[str, Any]) -> None:
    """Tell the watchers of a live piece."""
    for watcher in _watchers:
        with _logged():
            watcher.live(key, thread_id, event)


def publish_stop(worker: UUID, run_id: UUID) -> None:
    """Tell the watchers that a run which another process may have is to stop: sooner than its beat would."""
    for watcher in _watchers:
        with _logged():
            watcher.stop(worker, run_id)


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except Exception:
        logger.exception("A watcher failed")


def delta_event(run_id: UUID, message_id: UUID, delta: Delta) -> dict[str, Any]:
    """A live piece of an answer: ``text_delta``, ``reasoning_delta`` or ``arguments_delta``."""
    event: dict[str, Any] = {"run_id": str(run_id), "message_id": str(message_id)}
    match delta:
        case TextDelta(text):
            return {"type": "text_delta", **event, "text": text}
        case ReasoningDelta(text):
            return {"type": "reasoning_delta", **event, "text": text}
        case ArgumentsDelta(index, name, arguments):
            return {
                "type": "arguments_delta",
                **event,
                "index": index,
                "tool_name": name,
                "arguments": arguments,
            }


def discarded_event(run_id: UUID, message_id: UUID) -> dict[str, Any]:
    """The pieces of this message are void: the model is asked again, under a new message id."""
    return {"type": "discarded", "run_id": str(run_id), "message_id": str(message_id)}
