"""What has to be true of a thread's rows whenever nothing runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from project.desk.models import CallBack
from tests.machine.world import ATOMIC
from tests.support import is_valid

if TYPE_CHECKING:
    from criogen_threads.models import Thread, ToolCall
    from tests.machine.rows import Rows
    from tests.machine.world import World


def check(rows: Rows, world: World) -> None:
    """All of it."""
    assert not world.problems, world.problems
    if rows.thread is None:
        left = [rows.runs, rows.checkpoints, rows.messages, rows.calls, rows.events]
        assert not any(left)
        return
    check_numbers(rows, rows.thread)
    check_statuses(rows, rows.thread)
    check_references(rows)
    check_calls(rows, rows.thread)
    check_effects(rows, world)


def check_numbers(rows: Rows, thread: Thread) -> None:
    assert [c.version for c in rows.checkpoints.values()] == list(range(1, thread.version + 1))
    assert [e.seq for e in rows.events.values()] == list(range(1, thread.event_seq + 1))
    assert len({run.number for run in rows.runs.values()}) == len(rows.runs)
    newest = max(rows.checkpoints.values(), key=lambda c: c.version, default=None)
    assert thread.head_id == (newest.pk if newest else None)
    assert thread.tokens == sum(run.tokens for run in rows.runs.values())
    for message in rows.messages.values():
        parent = rows.messages.get(message.parent_id) if message.parent_id else None
        assert message.position == (parent.position + 1 if parent else 1)


def check_statuses(rows: Rows, thread: Thread) -> None:
    """The thread, its run and its head say the same."""
    run, head = rows.run, rows.head
    live = [each.status for each in rows.runs.values() if each.status in ("in_progress", "requires_action")]
    wanted = {
        "idle": ({None, "completed"}, []),
        "running": ({"in_progress"}, ["in_progress"]),
        "suspended": ({"requires_action"}, ["requires_action"]),
        "failed": ({"failed"}, ["failed"]),
    }
    statuses, alive = wanted[thread.status]
    assert (run.status if run else None) in statuses
    assert live == [status for status in alive if status != "failed"]
    assert thread.holder is None or thread.status == "running"
    assert thread.cancel_mark is None
    if run is not None and head is not None and thread.status in ("idle", "failed", "suspended"):
        assert head.status == {"idle": "completed"}.get(thread.status, thread.status)
    for each in rows.runs.values():
        ended = each.status in ("completed", "failed")
        assert (each.completed_at is not None) == ended
        assert bool(each.error_code) == (each.status == "failed")


def check_references(rows: Rows) -> None:
    """Whatever a row points at is there."""
    for event in rows.events.values():
        assert event.parent_id is None or event.parent_id in rows.events
        assert event.run_id is None or event.run_id in rows.runs
        assert event.message_id is None or event.message_id in rows.messages
        assert event.tool_call_id is None or event.tool_call_id in rows.calls
    for checkpoint in rows.checkpoints.values():
        assert checkpoint.run_id is None or checkpoint.run_id in rows.runs
        assert checkpoint.message_id in rows.messages
        assert checkpoint.state_at_id is None or rows.checkpoints[checkpoint.state_at_id].state is not None
    for call in rows.calls.values():
        assert call.run_id in rows.runs
        assert rows.messages[call.message_id].role == "assistant"
        assert call.result_id is None or rows.messages[call.result_id].role == "tool"


def check_calls(rows: Rows, thread: Thread) -> None:
    """Open approvals are the current run's and are counted; no result counts twice; every prefix makes sense."""
    waiting = [call for call in rows.calls.values() if call.status == "awaiting_approval"]
    assert {call.run_id for call in waiting} <= {thread.current_run_id}
    assert thread.pending == len(waiting)
    results = Counter(call.result_id for call in rows.calls.values() if call.result_id)
    assert set(results.values()) <= {1}
    if thread.status != "running":
        assert "running" not in {call.status for call in rows.calls.values()}
    ends = [e for e in rows.events.values() if e.type in ("tool_complete", "tool_error")]
    told = Counter((event.tool_call_id, event.message_id) for event in ends)
    assert all(told[call.pk, call.result_id] == 1 for call in rows.calls.values() if call.result_id)
    if thread.head_id:
        said = rows.said(thread.head_id)
        assert is_valid(_without_open_calls(said))


def _without_open_calls(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation, its last answer's open calls left out: a run may still be on its way to their results."""
    last = max((n for n, m in enumerate(said) if m["role"] in ("assistant", "user")), default=0)
    if said[last]["role"] == "user":
        return said
    results = {block["tool_result"]["id"] for m in said[last:] for block in m["content"] if "tool_result" in block}
    content = [b for b in said[last]["content"] if "tool_call" not in b or b["tool_call"]["id"] in results]
    return [*said[:last], {**said[last], "content": content}, *said[last + 1 :]]


def check_effects(rows: Rows, world: World) -> None:
    """A tool took effect as often as it was started; an atomic one exactly when its result says so."""
    started = Counter(
        _key(rows.calls[event.tool_call_id])
        for event in rows.events.values()
        if event.type == "tool_start" and event.tool_call_id
    )
    written = Counter(CallBack.objects.values_list("note", flat=True))
    done: Counter[str] = Counter()
    for call in rows.calls.values():
        key = _key(call)
        if call.name in ATOMIC:
            done[key] += call.status == "done"
            assert written[key] == done[key] or call.try_number < _tries(rows, key)
        else:
            assert world.effects[key] == started[key], f"{call.name} was started {started[key]} times"
        if call.edited_arguments is not None and call.status == "done" and call.name not in ATOMIC:
            assert world.amounts[key] == call.edited_arguments["amount"]


def _tries(rows: Rows, key: str) -> int:
    return max(call.try_number for call in rows.calls.values() if _key(call) == key)


def _key(call: ToolCall) -> str:
    return f"{call.run_id}:{call.step}:{call.index}"
