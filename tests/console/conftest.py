"""Short waits, a site with static files, and the strictest policy on content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import django
import pytest
from django.conf import settings as configured
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.test.testcases import LiveServerThread

from tests.console.support import Staff, a_waiting_thread
from tests.support import forget_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper

    from criogen_threads.models import ToolCall


@pytest.fixture(autouse=True)
def site(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 2, "MODEL_BACKOFF": 0.01, "MODEL_RETRIES": 0}
    settings.STATIC_URL = "/static/"
    settings.MEDIA_URL = "/media/"
    if django.VERSION >= (6, 1):
        settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
    languages = "django.middleware.locale.LocaleMiddleware"
    settings.MIDDLEWARE = ["project.security.StrictContent", *configured.MIDDLEWARE, languages]
    yield
    forget_agents()


@pytest.fixture
def served(site: None, transactional_db: None) -> Iterator[str]:
    """The address of the site, with its static files."""
    server = LiveServerThread("127.0.0.1", StaticFilesHandler)
    server.daemon = True
    server.start()
    server.is_ready.wait()
    if server.error:
        raise server.error
    yield f"http://127.0.0.1:{server.port}"
    server.terminate()


@pytest.fixture
def call(transactional_db: None) -> ToolCall:
    """An approval that waits for the staff."""
    return a_waiting_thread()


@pytest.fixture
def approver(transactional_db: None) -> Staff:
    return Staff("approver", "decide_toolcall", "view_transcript")


@pytest.fixture
def boss(transactional_db: None) -> Staff:
    return Staff("boss", superuser=True)


@pytest.fixture
def viewer(transactional_db: None) -> Staff:
    return Staff("viewer", "view_transcript")
