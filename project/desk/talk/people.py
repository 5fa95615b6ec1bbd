"""The two people of the demo: a visitor, and somebody of the staff. Whoever sits at the terminal is both."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Permission, User
from django.utils.crypto import get_random_string

from criogen_threads.management.commands.criogen_groups import OPERATOR

VISITOR = "demo-visitor"
STAFF = "demo-staff"
PERMISSIONS = {
    "criogen_threads": OPERATOR,
    "desk": ("view_order", "change_order", "view_callback"),
}
"""By app: what operators of conversations may do, and the orders."""


def visitor() -> User:
    """Who asks."""
    return _user(VISITOR)


def staff() -> User:
    """Who answers approvals, and sees to the conversations and the orders."""
    user = _user(STAFF, is_staff=True)
    for app, names in PERMISSIONS.items():
        user.user_permissions.add(*Permission.objects.filter(content_type__app_label=app, codename__in=names))
    return user


def with_new_passwords() -> dict[str, str]:
    """Let both sign in: their names, and passwords that are good until the demo starts again."""
    found = {}
    for user in (visitor(), staff()):
        found[user.username] = get_random_string(12, "abcdefghjkmnpqrstuvwxyz23456789")
        user.set_password(found[user.username])
        user.save(update_fields=["password"])
    return found


def _user(name: str, *, is_staff: bool = False) -> User:
    """A user of the demo, who cannot sign in until there is a password."""
    defaults = {"is_staff": is_staff, "password": make_password(None)}
    return User.objects.get_or_create(username=name, defaults=defaults)[0]
