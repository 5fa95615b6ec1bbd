"""``manage.py criogen_groups``: groups of the staff, ready to use."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.core.management.base import BaseCommand
from django.utils.translation import gettext as _

VIEWER = ("view_transcript",)
APPROVER = (*VIEWER, "decide_toolcall")
OPERATOR = (*APPROVER, "rewind_thread", "retry_run", "cancel_run", "delete_thread")

GROUPS = {
    "Conversations: viewer": VIEWER,
    "Conversations: approver": APPROVER,
    "Conversations: operator": OPERATOR,
}
"""Names of the groups, and the permissions that each is given."""


class Command(BaseCommand):
    """Make the groups, or give those that are there what they lack. Nothing is taken from them."""

    help = "Make groups for staff who view, answer approvals, or operate conversations."

    def handle(self, *_args: Any, **_options: Any) -> None:
        for name, codenames in GROUPS.items():
            group, made = Group.objects.get_or_create(name=name)
            wanted = Permission.objects.filter(content_type__app_label="criogen_threads", codename__in=codenames)
            group.permissions.add(*wanted)
            said = _("{name}: made") if made else _("{name}: up to date")
            self.stdout.write(said.format(name=name))
