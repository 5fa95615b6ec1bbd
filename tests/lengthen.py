"""Conversations that are long at once."""

from __future__ import annotations

from typing import Any

from criogen_threads.models import Checkpoint, Message, Thread


def lengthen(key: str, count: int, more: str = "") -> None:
    """Have the conversation so many messages; ``more`` stands behind the text of each."""
    thread = Thread.objects.select_related("head").get(key=key)
    last = Message.objects.get(pk=thread.head.message_id)
    same: dict[str, Any] = {"thread": thread, "run_id": last.run_id, "agent": last.agent}
    rows = []
    for position in range(last.position + 1, count + 1):
        content = [{"text": f"message {position}{more}"}]
        last = Message(
            role="user" if position % 2 else "assistant", content=content, parent=last, position=position, **same
        )
        rows.append(last)
    Message.objects.bulk_create(rows, batch_size=500)
    Checkpoint.objects.filter(pk=thread.head_id).update(message=last)
