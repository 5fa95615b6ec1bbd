"""A chain of events as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def format_chain(events: Iterable[Mapping[str, Any]]) -> str:
    """One paragraph an event, the root first: ``[HH:MM:SS.mmm] TYPE - Agent: name`` (UTC), then its details."""
    return "\n\n".join("\n".join(_lines(event)) for event in events)


def _lines(event: Mapping[str, Any]) -> Iterator[str]:
    moment = datetime.fromtimestamp(event["created_at_ms"] / 1000, UTC)
    clock = f"{moment:%H:%M:%S}.{event['created_at_ms'] % 1000:03d}"
    yield f"[{clock}] {event['type'].upper()} - Agent: {event['agent']}"
    for key, value in event["details"].items():
        if isinstance(value, dict):
            yield f"  {key}:"
            yield from (f"    {inner}: {each}" for inner, each in value.items())
        else:
            yield f"  {key}: {value}"
