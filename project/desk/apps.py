"""The support desk of a small shop: the app that a site brings."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DeskConfig(AppConfig):
    name = "project.desk"
    verbose_name = _("Support desk")
    default_auto_field = "django.db.models.BigAutoField"
