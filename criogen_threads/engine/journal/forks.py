"""A new run that goes on from a checkpoint of an older one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from criogen_threads.engine.journal import lines
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.models import Run

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.engine.journal.pen import Pen


def fork_run(
    pen: Pen, origin: Run, run_id: UUID, *, status: str, step: int, message_id: UUID | None, asker: Asker
) -> Run:
    """Begin a run that names the one it goes on from; its limits count from here."""
    locked = pen.locked
    asked = Asker(origin.actor_id, origin.visitor, origin.address) if asker.is_site else asker
    run = pen.run(
        Run(
            id=run_id,
            thread_id=locked.id,
            number=lines.place(pen.session, locked.id)[0],
            status=status,
            agent=origin.agent,
            **asked.columns(),
            locale=origin.locale,
            forked_from_id=origin.pk,
            first_step=step,
            started_at=locked.now,
        )
    )
    pen.event("run_start", run)
    pen.event("agent_start", run, id=run.id, message_id=message_id)
    return run
