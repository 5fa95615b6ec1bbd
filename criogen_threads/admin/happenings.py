"""Events in order, each below the one that it follows from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from criogen_threads import redaction
from criogen_threads.admin.text import pretty, visible
from criogen_threads.engine import reads
from criogen_threads.engine.chains import format_chain

if TYPE_CHECKING:
    from uuid import UUID

    from django.utils.safestring import SafeString

    from criogen_threads.models import Thread
    from criogen_threads.redaction import Audience
    from criogen_threads.threads import ThreadHandle

PAGE = 100
DEEPEST = 5
CUT = 2_000
"""Characters of a detail that the page shows; the story has the whole text."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One event; ``depth`` is how far below the root of its chain it stands on this page."""

    id: str
    seq: int
    type: str
    agent: SafeString
    when: datetime
    depth: int
    details: list[tuple[SafeString, SafeString, int]]


@dataclass(frozen=True, slots=True)
class Happenings:
    """A page of events; ``after`` continues it."""

    rows: list[Happening]
    after: int | None


def page(thread: Thread, after: int, to: Audience) -> Happenings:
    """The events of a thread after a number."""
    views = reads.events_after(thread.pk, after, PAGE + 1)
    more = len(views) > PAGE
    depths: dict[str, int] = {}
    rows = []
    for view in views[:PAGE]:
        depth = depths.get(view["parent_id"], -1) + 1
        depths[view["id"]] = min(depth, DEEPEST)
        shown = redaction.event(view, to)
        if shown is not None:
            rows.append(_happening(shown, depths[view["id"]]))
    return Happenings(rows, views[PAGE - 1]["seq"] if more else None)


def _happening(view: dict[str, Any], depth: int) -> Happening:
    when = datetime.fromtimestamp(view["created_at_ms"] / 1000, UTC)
    details = [(visible(name), *_cut(value)) for name, value in view["details"].items()]
    return Happening(view["id"], view["seq"], view["type"], visible(view["agent"]), when, depth, details)


def _cut(value: Any) -> tuple[SafeString, int]:
    text = value if isinstance(value, str) else pretty(value)
    return visible(text[:CUT]), max(0, len(text) - CUT)


def chain(handle: ThreadHandle, thread: Thread, event: UUID) -> SafeString:
    """The chain that leads to an event, as text."""
    views = reads.event_chain(thread.key, event)
    return visible(format_chain(redaction.events(views, redaction.audience(handle.actor, thread))))
