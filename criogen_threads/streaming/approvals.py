"""The approvals that wait in a thread, as one person is shown them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ag_ui.core.types import Interrupt

from criogen_threads.engine import reads, trees
from criogen_threads.engine.pools import in_database
from criogen_threads.policy import get_policy
from criogen_threads.streaming import agui

if TYPE_CHECKING:
    from collections.abc import Sequence

    from criogen_threads.engine.telling import Standing
    from criogen_threads.engine.trees import Link
    from criogen_threads.models import Thread
    from criogen_threads.streaming.showing import Viewer

ANSWER = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}, "reason": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["approve"],
}


async def approvals(standing: Standing, viewer: Viewer) -> list[dict[str, Any]]:
    """What waits for people; ``mine`` says whether this person may answer it, asked of the policy now."""
    return await in_database(_approvals, standing, viewer)


def _approvals(standing: Standing, viewer: Viewer) -> list[dict[str, Any]]:
    thread = reads.thread(standing.key)
    if thread is None or thread.current_run is None or thread.current_run.pk != standing.run_id:
        return []
    run, policy = thread.current_run, get_policy()
    waiting = reads.pending(thread.pk, run.pk)
    chains = trees.chains([call.run for call in waiting])
    views = []
    for call in waiting:
        links = chains[call.run_id]
        view = agui.approval(call, call.agent, viewer, trees.chain_view(links))
        if view is not None:
            mine = viewer.user is None or policy.decide(viewer.user, call, call.thread, call.run)
            views.append({**view, **_within(links, thread, viewer), "mine": mine})
    return views


def _within(links: Sequence[Link], thread: Thread, viewer: Viewer) -> dict[str, str]:
    """``within``: the call of this conversation that waits for it, where an asked agent's does."""
    for link in links:
        call = link.call
        if call is not None and call.thread_id == thread.pk and viewer.sees(call.agent, call.name):
            return {"within": agui.call_name(call)}
    return {}


def interrupts(pending: list[dict[str, Any]]) -> list[Interrupt]:
    """Those that this person may answer, in AG-UI."""
    return [
        Interrupt(
            id=each["id"],
            reason="approval",
            message=f"May {each['name'] or 'this tool'} run?",
            tool_call_id=each["toolCallId"],
            response_schema=ANSWER,
            expires_at=_moment(each["expires_at_ms"]),
            metadata={name: each[name] for name in ("agent", "arguments", "digest", "approver")},
        )
        for each in pending
        if each["mine"]
    ]


def _moment(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
