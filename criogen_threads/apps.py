"""The Django app."""

from django.apps import AppConfig
from django.conf import settings
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class CriogenThreadsConfig(AppConfig):
    name = "criogen_threads"
    verbose_name = _("Conversations")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        if not hasattr(settings, "CRIOGEN_THREADS"):
            settings.CRIOGEN_THREADS = {}  # one that is missing is looked for anew at each use
        from criogen_threads import checks, notices, signals, signing_in  # noqa: F401 (they register themselves)
        from criogen_threads.streaming import hub  # noqa: F401 (it hears the runs of this process)

        autodiscover_modules("agents")
