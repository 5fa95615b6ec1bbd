"""What a rewind would do, said before it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from criogen_threads.admin import branching
from criogen_threads.admin.asking import name_answerers
from criogen_threads.admin.branching import MOST_COMPARED
from criogen_threads.admin.story import Entry, story_of
from criogen_threads.admin.text import visible
from criogen_threads.engine import reads
from criogen_threads.engine.journal import branches
from criogen_threads.models import Checkpoint, Message, ToolCall
from criogen_threads.threads.base import is_read_only

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    from criogen_threads.models import Thread
    from criogen_threads.redaction import Audience


@dataclass(frozen=True, slots=True)
class Effect:
    """A call that has had its effects: a rewind does not undo them."""

    name: SafeString
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Consequences:
    """``entries`` are the newest messages that leave the history and ``more`` how many stand before them, ``void`` the
    approvals that are closed, ``again`` whether the target waits for approvals, which are asked for anew."""

    checkpoints: int
    messages: int
    entries: list[Entry]
    more: int
    void: list[Effect]
    effects: list[Effect]
    again: bool


def consequences(thread: Thread, target: Checkpoint, to: Audience) -> Consequences:
    """What leaves the history, which approvals become void, and what was done that stays done."""
    head = thread.head
    tail = head.message_id if head else None
    left = branching.beyond(Checkpoint, thread.head_id, target.pk)
    leaving = branching.beyond(Message, tail, target.message_id)
    pending = reads.pending(thread.pk, thread.current_run_id) if thread.current_run_id else []
    changed = [call for call in reads.calls_left_behind(thread.pk, tail, target.message_id) if not is_read_only(call)]
    name_answerers([*pending, *changed])
    return Consequences(
        checkpoints=left,
        messages=leaving,
        entries=story_of(thread, branches.messages(tail, min(leaving, MOST_COMPARED)), to),
        more=max(0, leaving - MOST_COMPARED),
        void=[Effect(visible(call.name), call) for call in pending],
        effects=[Effect(visible(call.name), call) for call in changed],
        again=target.status == Checkpoint.Status.SUSPENDED,
    )
