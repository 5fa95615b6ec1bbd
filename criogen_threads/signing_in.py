"""At sign-in a visitor's conversations become the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.signals import user_logged_in
from django.db import transaction
from django.dispatch import receiver

from criogen_threads import visitors
from criogen_threads.engine.journal import visiting
from criogen_threads.engine.journal.statements import database

if TYPE_CHECKING:
    from django.http import HttpRequest


@receiver(user_logged_in, dispatch_uid="criogen_threads.carry_over")
def carry_over(request: HttpRequest | None, user: Any, **_: Any) -> None:
    """After the commit of whoever signs the user in. A sign-in does not fail for it: what could not be carried over
    stays the visitor's, and the next sign-in from the same session tries again. A log-out ends that session, and with
    it the only claim to such conversations.

    Django gives the session a new key at sign-in and keeps what is in it, unless it was another user's.
    """
    session: Any = getattr(request, "session", None)
    token = None if session is None else session.get(visitors.SESSION_NAME)
    if not token:
        return

    def make_them_theirs() -> None:
        visiting.carry_over(visitors.digest(token), user.pk)
        session.pop(visitors.SESSION_NAME, None)  # it names nobody any more

    transaction.on_commit(make_them_theirs, using=database(), robust=True)
