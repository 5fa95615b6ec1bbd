"""A thread as a file, redacted like everything else. It is read a few rows at a time, however long it is.

In the Markdown form everything that was said stands in fences: whoever opens the file, with whatever program, runs
no script of it and loads no picture.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from criogen_threads import redaction
from criogen_threads.api.showing import run_views
from criogen_threads.engine import reads
from criogen_threads.engine.journal import branches
from criogen_threads.engine.views import checkpoint_view, message_view, milliseconds
from criogen_threads.models import Checkpoint, Message, Run, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from uuid import UUID

    from django.db.models import QuerySet

    from criogen_threads.models import Thread
    from criogen_threads.redaction import Audience

M = TypeVar("M", Message, Checkpoint, Run, ToolCall)

_BACKTICKS = re.compile(r"`+")
_ODD_LINE = re.compile(r"[^\w .,:/@+-]")

PIECE = 25
"""Rows that are read at once; one of them may have a megabyte."""


def as_json(thread: Thread, to: Audience) -> Iterator[str]:
    """The conversation, its runs, its history, its approvals and its events."""
    about = {
        "key": thread.key,
        "id": str(thread.pk),
        "agent": thread.agent,
        "owner": None if thread.owner_id is None else str(thread.owner_id),
        "title": thread.title,
        "metadata": thread.metadata,
        "state": thread.state,
        "status": thread.status,
        "version": thread.version,
        "seq": thread.event_seq,
        "created_at_ms": milliseconds(thread.created_at),
        "last_message_at_ms": milliseconds(thread.last_message_at),
    }
    lists = {
        "messages": _messages(thread, to),
        "runs": _runs(thread, to),
        "history": _history(thread),
        "approvals": _approvals(thread, to),
        "events": _events(thread, to),
    }
    yield f'{{"thread": {json.dumps(about)}'
    for name, views in lists.items():
        yield f",\n{json.dumps(name)}: ["
        yield from _lines(views)
        yield "]"
    yield "}\n"


def _lines(views: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A line for each row: to be read in any editor, and made by the fast encoder."""
    separator = ""
    for view in views:
        yield f"{separator}\n {json.dumps(view)}"
        separator = ","


def _messages(thread: Thread, to: Audience) -> Iterator[dict[str, Any]]:
    tail = thread.head.message_id if thread.head else None
    for messages in _along(Message.objects.all(), branches.ids(Message, tail)[::-1]):
        yield from redaction.messages(map(message_view, messages), to)


def _history(thread: Thread) -> Iterator[dict[str, Any]]:
    for checkpoints in _along(Checkpoint.objects.defer("state"), branches.ids(Checkpoint, thread.head_id)):
        yield from map(checkpoint_view, checkpoints)


def _along(rows: QuerySet[M], ids: list[UUID]) -> Iterator[list[M]]:
    """The rows with these ids, in their order, piece by piece."""
    for start in range(0, len(ids), PIECE):
        piece = ids[start : start + PIECE]
        found = rows.in_bulk(piece)
        yield [found[each] for each in piece]


def _runs(thread: Thread, to: Audience) -> Iterator[dict[str, Any]]:
    for runs in _ordered(Run.objects.filter(thread=thread.pk), "number"):
        yield from run_views(runs, thread, to)


def _ordered(rows: QuerySet[M], column: str) -> Iterator[list[M]]:
    """Rows in the order of a unique column, piece by piece."""
    rows = rows.order_by(column)
    piece = list(rows[:PIECE])
    while piece:
        yield piece
        piece = list(rows.filter(**{f"{column}__gt": getattr(piece[-1], column)})[:PIECE])


def _events(thread: Thread, to: Audience) -> Iterator[dict[str, Any]]:
    piece = reads.events_after(thread.pk, 0, PIECE)
    while piece:
        yield from redaction.events(piece, to)
        piece = reads.events_after(thread.pk, piece[-1]["seq"], PIECE)


def _approvals(thread: Thread, to: Audience) -> Iterator[dict[str, Any]]:
    calls = ToolCall.objects.filter(thread=thread.pk).exclude(approver="").select_related("run", "message")
    for piece in _ordered(calls, "pk"):
        for call in piece:
            yield from redaction.approvals([_approval(call)], to, call.agent)


def _approval(call: ToolCall) -> dict[str, Any]:
    return {
        "id": str(call.pk),
        "name": call.name,
        "arguments": call.arguments,
        "edited_arguments": call.edited_arguments,
        "approver": call.approver,
        "status": call.status,
        "approved": call.approved,
        "decided_by": None if call.decided_by_id is None else str(call.decided_by_id),
        "decided_at_ms": milliseconds(call.decided_at),
        "reason": call.reason,
        "run_id": str(call.run_id),
    }


def as_markdown(thread: Thread, to: Audience) -> Iterator[str]:
    """The conversation for people."""
    yield f"# {_one_line(thread.key)}\n\nAgent: {_one_line(thread.agent)}. Status: {thread.status}.\n\n"
    for view in _messages(thread, to):
        for line in _message(view):
            yield f"{line}\n"


def _message(view: dict[str, Any]) -> Iterator[str]:
    when = datetime.fromtimestamp(view["created_at_ms"] / 1000, UTC)
    who = view["agent"] if view["role"] == "assistant" else view["role"]
    yield f"## {view['position']}. {_one_line(who)}, {when:%Y-%m-%d %H:%M:%S} UTC"
    yield ""
    for block in view["content"]:
        yield from _block(block)


def _block(block: dict[str, Any]) -> Iterator[str]:
    if "text" in block:
        yield from _fenced(block["text"])
    elif "tool_call" in block:
        call = block["tool_call"]
        yield f"Tool call: {_one_line(call['name'])}"
        yield from _fenced("(hidden)" if call.get("hidden") else call["arguments"])
    elif "tool_result" in block:
        result = block["tool_result"]
        yield f"{'Error' if result.get('is_error') else 'Result'} of {_one_line(result['name'])}"
        yield from _fenced("(hidden)" if result.get("hidden") else result["content"])
    else:
        yield f"({_one_line(next(iter(block), 'empty'))})"
        yield ""


def _fenced(value: Any) -> Iterator[str]:
    """Text in a fence that it cannot close itself."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    yield from ("", f"{fence}text", text, fence, "")


def _one_line(text: str) -> str:
    """A name with nothing in it that Markdown or HTML would understand."""
    return _ODD_LINE.sub("_", text)


KINDS: dict[str, tuple[Callable[[Thread, Audience], Iterator[str]], str]] = {
    "json": (as_json, "application/json"),
    "md": (as_markdown, "text/markdown; charset=utf-8"),
}
