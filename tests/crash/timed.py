"""The agent of the clock tests: what it does hangs on leases, expiries and waits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.agents import Agent, Tool
from criogen_threads.backends.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from criogen_threads.engine.replies import Reply
    from criogen_threads.threads import ThreadHandle

SETTINGS = {"LEASE_SECONDS": 1, "HEARTBEAT_SECONDS": 0.25}
SHORT, LONG = 0.3, 1800.0
"""Seconds until the two approvals expire."""


def agent(folder: str | Path) -> Agent:
    """Says "ok" to everything, but calls the tool that the user names."""
    begun, gate = Path(folder) / "begun", Path(folder) / "gate"

    def hold() -> str:
        """Runs until somebody opens the gate."""
        begun.touch()
        deadline = time.monotonic() + 20
        while not gate.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return "held"

    def patient() -> str:
        """May be approved for a long time."""
        return "ran"

    def hasty() -> str:
        """May be approved for a moment."""
        return "ran"

    def respond(messages: Sequence[Mapping[str, Any]], _tools: object) -> str | list[dict[str, Any]]:
        last = messages[-1]
        said = last["content"][0].get("text", "")
        if last["role"] == "user" and said in ("hold", "patient", "hasty"):
            return [{"tool_call": {"name": said}}]
        return "ok"

    tools = [
        Tool(hold),
        Tool(patient, approval="owner", expires_in=LONG),
        Tool(hasty, approval="owner", expires_in=SHORT),
    ]
    return Agent("timed", model=ScriptedModel(respond), tools=tools)


def obey(handle: ThreadHandle, what: str, *arguments: str) -> dict[str, Any]:
    """Do one thing with a conversation; the outcome, or the code of the error."""
    try:
        if what == "send":
            return _told(handle.send_sync(arguments[0], on_busy=arguments[1] if arguments[1:] else "wait"))
        return _told(handle.approve_sync() if what == "approve" else handle.retry_sync())
    except errors.CriogenError as error:
        return {"error": error.code}


def _told(reply: Reply) -> dict[str, Any]:
    results = [
        block["tool_result"]["content"] for m in reply.messages for block in m["content"] if "tool_result" in block
    ]
    return {"status": reply.status, "results": results, "pending": reply.pending}
