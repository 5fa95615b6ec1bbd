"""What the templates of the console, and a site's own admin templates, may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django
from django import template

from criogen_threads.admin.approvals import ENTRY, open_approvals
from criogen_threads.admin.base import may_enter
from criogen_threads.admin.text import visible
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from django.db.models.options import Options
    from django.template.context import Context
    from django.utils.safestring import SafeString

register = template.Library()

MOST_COUNTED = 1_000


@register.simple_tag(takes_context=True)
def waiting_approvals(context: Context) -> dict[str, Any]:
    """How many approvals this user may answer: ``number``, ``more`` where it was counted no further, and
    ``shown``, whether the queue is this user's to open."""
    user = context["user"]
    if not may_enter(user, ENTRY):
        return {"shown": False, "number": 0, "more": False}
    number = get_policy().decidable(user, open_approvals())[: MOST_COUNTED + 1].count()
    return {"shown": True, "number": min(number, MOST_COUNTED), "more": number > MOST_COUNTED}


@register.filter
def as_seen(text: Any) -> SafeString:
    """Text with nothing unseen in it."""
    return visible(str(text))


@register.filter
def admin_address(opts: Options[Any], name: str) -> str:
    """The name of an admin page of a model."""
    return f"admin:{opts.app_label}_{opts.model_name}_{name}"


@register.simple_tag
def breadcrumb_list() -> bool:
    """Whether this Django writes its breadcrumbs as a list."""
    return django.VERSION >= (6, 1)
