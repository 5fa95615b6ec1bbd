"""What a turn gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from criogen_threads.engine import reads, transcript
from criogen_threads.engine.journal import usages
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.trees import approval_views
from criogen_threads.engine.views import approval_view, message_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from criogen_threads.models import Message, Run, ToolCall


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a turn that completed, or that waits for a person.

    ``text`` is that of the last answer, ``messages`` are those of this run (as ``messages()`` gives them),
    ``pending`` the approvals that it waits for.
    """

    text: str
    status: str
    run_id: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    pending: list[dict[str, Any]] = field(default_factory=list)


def make_reply(run: Run, status: str, messages: Sequence[Message], calls: Iterable[ToolCall]) -> Reply:
    """A reply from the rows of a run that asked no other agent; its messages are the last ones of the conversation."""
    pending = [call for call in calls if call.run_id == run.id and call.status == "awaiting_approval"]
    return _reply(run, status, messages, [approval_view(call, run.agent) for call in pending], run.usage)


def reply_of_many(run: Run, status: str, messages: Sequence[Message]) -> Reply:
    """A reply of a run that may have asked others: with their approvals, and with what they cost."""
    pending = reads.pending(run.thread_id, run.pk) if status == "suspended" else []
    usage = usages.totals(database(), [run])[run.pk]
    return _reply(run, status, messages, approval_views(pending), usage)


def _reply(
    run: Run, status: str, messages: Sequence[Message], pending: list[dict[str, Any]], usage: dict[str, Any]
) -> Reply:
    own = list(takewhile(lambda message: message.run_id == run.id, reversed(messages)))[::-1]
    text = next((transcript.text_of(m.content) for m in reversed(own) if m.role == "assistant"), "")
    return Reply(text, status, str(run.id), [message_view(m) for m in own], usage, pending)
