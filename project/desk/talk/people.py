"""The two people that whoever sits at the terminal is: a visitor, and somebody of the staff."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Permission, User

VISITOR = "demo-visitor"
STAFF = "demo-staff"
PERMISSIONS = ["decide_toolcall", "rewind_thread", "view_transcript"]


def visitor() -> User:
    """Who asks."""
    return _user(VISITOR)


def staff() -> User:
    """Who answers approvals: may read every conversation, decide and rewind, and nothing else."""
    user = _user(STAFF, is_staff=True)
    permissions = Permission.objects.filter(content_type__app_label="criogen_threads", codename__in=PERMISSIONS)
    user.user_permissions.add(*permissions)
    return user


def _user(name: str, *, is_staff: bool = False) -> User:
    """A user of the demo, who cannot sign in: without a usable password."""
    defaults = {"is_staff": is_staff, "password": make_password(None)}
    return User.objects.get_or_create(username=name, defaults=defaults)[0]
