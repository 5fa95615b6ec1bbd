"""What visitors begin: how much of it, and whose it becomes when they sign in."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Now
from django.utils.translation import gettext_noop as _

from criogen_threads import errors
from criogen_threads.conf import settings
from criogen_threads.engine.journal.locks import lock_all
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.journal.writing import write
from criogen_threads.models import Run, Thread, Visitor, VisitorAddress

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from criogen_threads.engine.journal.askers import Asker
    from criogen_threads.engine.journal.statements import Session

REMEMBERED_DAYS = 30
"""Days that a visitor who signed in is remembered, so that an old session begins nothing more."""


def refuse_beginning(session: Session, asker: Asker, now: datetime) -> None:
    """Below the lock of the thread that a visitor begins: refuse what is too much, and who has signed in meanwhile.

    The order is the new thread, visitor, address; both rows stay locked until the commit, so that of many requests
    at once exactly as many get through as the limit says, and none escapes a sign-in at the same moment.

    Raises:
        PermissionDeniedError: ``permission_denied``: this visitor has signed in, and is a user now.
        TooManyThreadsError: ``too_many_threads``, with ``limit`` and ``seconds``.
    """
    if _locked_visitor(session, asker.visitor).user_id is not None:
        raise errors.PermissionDeniedError(_("you have signed in meanwhile: load the page anew"))
    limit, seconds = settings.VISITOR_THREADS, settings.VISITOR_SECONDS
    address = lock_address(session, asker.address)
    at = _milliseconds(now)
    counted = [moment for moment in address.begun if moment > at - seconds * 1000]
    if len(counted) >= limit:
        wait = (counted[-limit] - at) / 1000 + seconds
        raise errors.TooManyThreadsError(limit=limit, seconds=round(wait, 1))
    address.begun, address.last_at = [*counted, at], now
    address.save(using=session.alias)


@write
def carry_over(session: Session, visitor: str, user_id: Any) -> int:
    """Make a visitor's conversations those of the user who signed in from the same session; once, for one user.

    The order is visitor, threads, runs. Nothing is begun below the visitor's lock, and who waits for it holds only a
    thread that nobody else sees yet. Then all threads are locked before anything is written, so that what is under
    way in them is saved before it is looked for: an agent that is asked makes its thread below its caller's lock.

    Returns:
        How many there were.
    """
    row = _locked_visitor(session, visitor)
    if row.user_id not in (None, user_id):
        return 0  # somebody else was faster
    threads = Thread.objects.using(session.alias).filter(visitor=visitor, owner=None)
    locked: set[UUID] = set()
    while missing := set(threads.values_list("pk", flat=True)) - locked:
        lock_all(session, missing)
        locked |= missing
    row.user_id, row.created_at = user_id, Now()
    row.save(using=session.alias, update_fields=["user", "created_at"])
    runs = Run.objects.using(session.alias).filter(thread__in=locked, visitor=visitor, actor=None)
    runs.update(actor=user_id, visitor="")
    return threads.filter(pk__in=locked).update(owner=user_id, visitor="")


def forget_old() -> None:
    """Remove what no limit and no sign-in asks for any more."""
    aged = Now() - timedelta(days=REMEMBERED_DAYS)
    Visitor.objects.using(database()).filter(created_at__lt=aged).delete()
    over = Now() - timedelta(seconds=settings.VISITOR_SECONDS)
    VisitorAddress.objects.using(database()).filter(last_at__lt=over).delete()


def lock_address(session: Session, digest: str) -> VisitorAddress:
    """The row of an address, locked; made where it is new."""
    address: VisitorAddress = _locked(session, VisitorAddress, digest)
    return address


def _locked_visitor(session: Session, digest: str) -> Visitor:
    visitor: Visitor = _locked(session, Visitor, digest)
    return visitor


def _locked(session: Session, model: type[Visitor | VisitorAddress], digest: str) -> Any:
    rows: Any = model._base_manager.using(session.alias)
    no_key = session.connection.features.has_select_for_no_key_update
    while (row := rows.select_for_update(no_key=no_key).filter(pk=digest).first()) is None:
        rows.bulk_create([model(digest=digest)], ignore_conflicts=True)
    return row


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
