"""A user model of the site's own: no user name, but an address."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractBaseUser, PermissionsMixin
from django.db import models


class Person(AbstractBaseUser, PermissionsMixin):
    address = models.CharField(max_length=100, unique=True)
    is_staff = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)

    USERNAME_FIELD = "address"
    objects: ClassVar[models.Manager[Person]] = models.Manager()

    class Meta:
        app_label = "people"
