"""A new run that goes on from a checkpoint of an older one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from criogen_threads.engine.journal import lines
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.memories import HANDED_OVER
from criogen_threads.models import Message, Run

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Pen


def fork_run(
    pen: Pen, origin: Run, run_id: UUID, *, status: str, step: int, message_id: UUID | None, asker: Asker,
    parent_run_id: UUID | None = None, below: UUID | None = None,
) -> Run:  # fmt: skip
    """Begin a run that names the one it goes on from; its limits count from here.

    Args:
        message_id: The last message that was said there.
        parent_run_id: The run that asks for it, where another agent does.
        below: The event that it hangs below then.
    """
    locked = pen.locked
    asked = Asker.of_run(origin) if asker.is_site else asker
    run = pen.run(
        Run(
            id=run_id,
            thread_id=locked.id,
            number=lines.place(pen.session, locked.id)[0],
            status=status,
            agent=_agent_at(pen, message_id) or origin.agent,
            **asked.columns(),
            locale=origin.locale,
            forked_from_id=origin.pk,
            parent_run_id=parent_run_id,
            first_step=step,
            started_at=locked.now,
        )
    )
    pen.event("run_start", run, parent=below)
    pen.event("agent_start", run, id=run.id, parent=below, message_id=message_id)
    return run


def _agent_at(pen: Pen, message_id: UUID | None) -> str:
    """Who was to go on after a message."""
    message = pen.session.find(Message, message_id)
    if message is None:
        return ""
    return str((message.metadata or {}).get(HANDED_OVER) or message.agent)
