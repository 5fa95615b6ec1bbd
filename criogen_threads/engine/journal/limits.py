"""How many runs one user, or the visitors from one address, may have at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model

from criogen_threads import errors
from criogen_threads.conf import settings
from criogen_threads.engine.journal import lines, visiting
from criogen_threads.models import Run, Thread

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from criogen_threads.engine.journal.askers import Asker
    from criogen_threads.engine.journal.statements import Session


def refuse_too_many(session: Session, asker: Asker) -> None:
    """Below the thread's lock: refuse one more run of a user who has as many as ``MAX_RUNS_PER_USER`` allows, or of
    a visitor whose address has ``VISITOR_RUNS``.

    The row of the user or the address is locked until the commit, so that two threads cannot both take the last
    place. The order is always thread, then that row; on SQLite the transaction itself is the lock. A run whose
    process died does not count, nor does one that another run asked for.

    Raises:
        TooManyRunsError: ``too_many_runs``, with ``limit``.
    """
    limit = settings.VISITOR_RUNS if asker.visitor else settings.MAX_RUNS_PER_USER
    if limit is None or asker.is_site:
        return
    if asker.visitor:
        visiting.lock_address(session, asker.address)
        own = Run.objects.using(session.alias).filter(address=asker.address)
    else:
        _lock_user(session, asker.user_id)
        own = Run.objects.using(session.alias).filter(actor=asker.user_id)
    if _live_and_queued(session, own) >= limit:
        raise errors.TooManyRunsError(f"at most {limit} runs at once are allowed", limit=limit)


def _lock_user(session: Session, user_id: Any) -> None:
    users = get_user_model()._base_manager.using(session.alias)
    no_key = session.connection.features.has_select_for_no_key_update
    list(users.select_for_update(no_key=no_key).filter(pk=user_id).values_list("pk", flat=True))


def _live_and_queued(session: Session, own: QuerySet[Run]) -> int:
    """Two counts, because each has a partial index of its own."""
    own = own.filter(parent_run=None)
    held = Thread.objects.using(session.alias).held()
    queued = own.filter(status=Run.Status.QUEUED).exclude(lines.gone()).count()
    return queued + own.filter(status=Run.Status.IN_PROGRESS, thread__in=held).count()
