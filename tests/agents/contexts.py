"""A ToolContext for tests of tools."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from criogen_threads.agents import ToolContext


def a_context(**changes: Any) -> ToolContext:
    values: dict[str, Any] = {
        "thread": "user-42",
        "thread_id": UUID(int=1),
        "run_id": UUID(int=2),
        "agent": "support",
        "actor": None,
        "locale": "de",
        "state": {"plan": "pro"},
    }
    return ToolContext(**{**values, **changes})
