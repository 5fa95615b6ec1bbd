"""Users with what they may do."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission


def a_user(name: str = "ann") -> Any:
    return get_user_model().objects.create_user(name)


def staff(name: str, *permissions: str) -> Any:
    """A member of the staff with permissions of this app."""
    user = get_user_model().objects.create_user(name, is_staff=True)
    granted = Permission.objects.filter(content_type__app_label="criogen_threads", codename__in=permissions)
    assert granted.count() == len(permissions)
    user.user_permissions.set(granted)
    return get_user_model().objects.get(pk=user.pk)
