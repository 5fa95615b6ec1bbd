"""The conversations above those of asked agents, where what waits below is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from criogen_threads.engine.journal.locks import family
from criogen_threads.models import Run, Thread, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Pen
    from criogen_threads.engine.journal.statements import Session


def above(alias: str, threads: Iterable[UUID]) -> set[UUID]:
    """The conversations in which agents were asked down to these."""
    found: set[UUID] = set()
    level = set(threads)
    while level:
        asked = Thread.objects.using(alias).filter(pk__in=level, parent__isnull=False)
        level = {parent for parent in asked.values_list("parent", flat=True) if parent}
        found |= level
    return found


def tell(session: Session, pens: Mapping[UUID, Pen], run: Run, answered: Iterable[UUID] = ()) -> None:
    """Note in the conversations above that of what waits in them something is answered, where others still wait: who
    watches them is shown what is left. Where nothing is left they go on, which is told by itself."""
    asked: Run | None = run
    while asked is not None and asked.parent_run is not None:
        caller = asked.parent_run
        calls = ToolCall.objects.using(session.alias).filter(thread=caller.thread_id, run=caller, child_run=asked)
        asking = calls.select_related("run", "message").order_by("-pk").first()
        pen = pens.get(asking.thread_id) if asking else None
        if asking is None or pen is None:
            return
        left = ToolCall.objects.using(session.alias).awaiting_approval().exclude(pk__in=answered)
        if left.filter(thread__in=family(session.alias, asking.thread_id)).exists():
            pen.event("asked_decided", None, agent=asking.agent, tool_call_id=asking.pk)
        asked = asking.run
