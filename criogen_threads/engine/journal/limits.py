"""How many runs one user may have at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model

from criogen_threads import errors
from criogen_threads.conf import settings
from criogen_threads.engine.journal import lines
from criogen_threads.models import Run, Thread

if TYPE_CHECKING:
    from criogen_threads.engine.journal.statements import Session


def refuse_too_many(session: Session, actor_id: Any) -> None:
    """Below the thread's lock: refuse one more run of a user who has as many as ``MAX_RUNS_PER_USER`` allows.

    The user's row is locked until the commit, so that two of their threads cannot both take the last place. The
    order is always thread, then user; on SQLite the transaction itself is the lock. A run whose process died
    does not count.

    Raises:
        TooManyRunsError: ``too_many_runs``, with ``limit``.
    """
    limit = settings.MAX_RUNS_PER_USER
    if limit is None or actor_id is None:
        return
    users = get_user_model()._base_manager.using(session.alias)
    no_key = session.connection.features.has_select_for_no_key_update
    list(users.select_for_update(no_key=no_key).filter(pk=actor_id).values_list("pk", flat=True))
    if _live_and_queued(session, actor_id) >= limit:
        raise errors.TooManyRunsError(f"at most {limit} runs at once are allowed", limit=limit)


def _live_and_queued(session: Session, actor_id: Any) -> int:
    """Two counts, because each has a partial index of its own."""
    own = Run.objects.using(session.alias).filter(actor=actor_id)
    held = Thread.objects.using(session.alias).held()
    queued = own.filter(status=Run.Status.QUEUED).exclude(lines.gone()).count()
    return queued + own.filter(status=Run.Status.IN_PROGRESS, thread__in=held).count()
