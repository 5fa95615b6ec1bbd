"""People who have not signed in: who became whom, and how much came from one address."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from criogen_threads.models.fields import JSONTextField


class Visitor(models.Model):
    """A visitor who has begun a conversation; what they begin is written below this row's lock.

    ``user`` is who signed in from the visitor's session: from then on nothing more is begun as this visitor.
    """

    digest = models.CharField(_("digest"), max_length=64, primary_key=True, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("user")
    )
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("visitor")
        verbose_name_plural = _("visitors")
        default_permissions = ()

    def __str__(self) -> str:
        return self.digest[:8]


class VisitorAddress(models.Model):
    """An address, and when the conversations were begun that still count (milliseconds since 1970)."""

    digest = models.CharField(_("digest"), max_length=64, primary_key=True, editable=False)
    begun = JSONTextField(_("begun"), default=list)
    last_at = models.DateTimeField(_("last"), db_default=Now(), db_index=True)

    class Meta:
        verbose_name = _("visitor's address")
        verbose_name_plural = _("visitors' addresses")
        default_permissions = ()

    def __str__(self) -> str:
        return self.digest[:8]
