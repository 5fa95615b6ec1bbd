"""How long something has waited, and how long it still may: in words, and as a shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.timesince import timesince
from django.utils.timezone import now
from django.utils.translation import gettext as _

from criogen_threads.models import ToolCall

if TYPE_CHECKING:
    from datetime import datetime

BAR = 100
"""Width of the bar that shows the time left."""

SOON = 0.25
"""The part of its time below which an approval is urgent."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """The time an approval has left. ``shape``: a full circle, a half one, or a triangle when it is urgent."""

    text: str
    width: int
    urgent: bool
    shape: str


def age(since: datetime) -> str:
    """How long ago, such as "2 hours, 5 minutes"."""
    return timesince(since, now(), depth=2)


def remaining(call: ToolCall) -> Remaining | None:
    """The time that a waiting approval has left; None where it waits without a limit, or not any more."""
    if call.expires_at is None or call.status != ToolCall.Status.AWAITING_APPROVAL:
        return None
    whole = (call.expires_at - call.created_at).total_seconds()
    left = (call.expires_at - now()).total_seconds()
    if left <= 0:
        return Remaining(_("expired"), 0, True, "△")
    part = min(1.0, left / whole) if whole > 0 else 0.0
    text = _("expires in %(time)s") % {"time": timesince(now(), call.expires_at, depth=2)}
    shape = "△" if part < SOON else "◑" if part < 2 * SOON else "●"
    return Remaining(text, max(1, round(BAR * part)), part < SOON, shape)
