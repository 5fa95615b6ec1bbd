"""What an asked agent remembers: where its conversation stood when it last answered on the caller's branch.

The result of asking carries it in its metadata, ``{"delegated": {"agent", "thread", "run", "message"}}``. So a rewind
of the caller takes the agent's memory back with it, and nothing else has to be written for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from criogen_threads.models import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from criogen_threads.models import Message

NAME = "delegated"
HANDED_OVER = "handed_over"  # on the result of a hand-over: who goes on
EARLIER = "remembered"  # on the first message behind a cut: the memories of what was cut off, by agent
ASKED_BY = "asked_by"  # on what an agent was asked: who asked it
NAMES = frozenset({NAME, HANDED_OVER, EARLIER, ASKED_BY})


def of_run(alias: str, run_id: UUID | None) -> dict[str, Any] | None:
    """The metadata of the result of this run; None where there is no such run."""
    columns = ("agent", "thread__key", "thread__head__message")
    row = Run.objects.using(alias).filter(pk=run_id).values_list(*columns).first() if run_id else None
    if row is None:
        return None
    agent, thread, message = row
    return {NAME: {"agent": agent, "thread": thread, "run": str(run_id), "message": str(message)}}


def last(messages: Iterable[Message], agent: str) -> UUID | None:
    """The last message of an agent's conversation as far as a branch knows it; None where it was never asked there.

    Args:
        messages: The branch, newest first.
    """
    for message in messages:
        metadata: Mapping[str, Any] = message.metadata or {}
        found = metadata.get(NAME) or {}
        if found.get("agent") == agent:
            return UUID(found["message"])
        if agent in (earlier := metadata.get(EARLIER) or {}):
            return UUID(earlier[agent])
    return None


def agents_of(message: Message) -> list[str]:
    """The agents of whose memory a message speaks."""
    metadata: Mapping[str, Any] = message.metadata or {}
    found = metadata.get(NAME)
    return [*(metadata.get(EARLIER) or {}), *([found["agent"]] if found else [])]
