"""A thread as a file, redacted like everything else.

In the Markdown form everything that was said stands in fences: whoever opens the file, with whatever program, runs
no script of it and loads no picture.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from criogen_threads import redaction
from criogen_threads.api.showing import run_views
from criogen_threads.engine import reads
from criogen_threads.engine.journal import branches
from criogen_threads.engine.views import checkpoint_view, message_view, milliseconds
from criogen_threads.models import Checkpoint, Run, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from criogen_threads.models import Thread
    from criogen_threads.redaction import Audience

_BACKTICKS = re.compile(r"`+")
_ODD_LINE = re.compile(r"[^\w .,:/@+-]")


def as_json(thread: Thread, to: Audience) -> bytes:
    """The conversation, its runs, its history, its approvals and its events."""
    seq, tail = thread.event_seq, thread.head.message_id if thread.head else None
    views = {
        "thread": {
            "key": thread.key,
            "id": str(thread.pk),
            "agent": thread.agent,
            "owner": None if thread.owner_id is None else str(thread.owner_id),
            "title": thread.title,
            "metadata": thread.metadata,
            "state": thread.state,
            "status": thread.status,
            "version": thread.version,
            "seq": seq,
            "created_at_ms": milliseconds(thread.created_at),
            "last_message_at_ms": milliseconds(thread.last_message_at),
        },
        "messages": redaction.messages(map(message_view, branches.messages(tail)), to),
        "runs": run_views(Run.objects.filter(thread=thread.pk).order_by("number"), thread, to),
        "history": [checkpoint_view(c) for c in branches.ancestors(Checkpoint, thread.head_id)],
        "approvals": _approvals(thread, to),
        "events": redaction.events(reads.events(thread.key), to),
    }
    parts = (f"{json.dumps(name)}: {_lines(value)}" for name, value in views.items())
    return ("{" + ",\n".join(parts) + "}\n").encode()


def _lines(value: Any) -> str:
    """JSON with a line for each row: to be read in any editor, and made by the fast encoder."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "[" + ",".join(f"\n {json.dumps(each)}" for each in value) + "]"


def _approvals(thread: Thread, to: Audience) -> list[dict[str, Any]]:
    calls = ToolCall.objects.filter(thread=thread.pk).exclude(approver="").select_related("run").order_by("pk")
    views = []
    for call in calls:
        view = {
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
        views += redaction.approvals([view], to, call.run.agent)
    return views


def as_markdown(thread: Thread, to: Audience) -> bytes:
    """The conversation for people."""
    tail = thread.head.message_id if thread.head else None
    views = redaction.messages(map(message_view, branches.messages(tail)), to)
    lines = [f"# {_one_line(thread.key)}", "", f"Agent: {_one_line(thread.agent)}. Status: {thread.status}.", ""]
    for view in views:
        lines += _message(view)
    return "\n".join(lines).encode()


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


KINDS: dict[str, tuple[Callable[[Thread, Audience], bytes], str]] = {
    "json": (as_json, "application/json"),
    "md": (as_markdown, "text/markdown; charset=utf-8"),
}
