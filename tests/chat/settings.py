"""Settings of the site whose pages have the chat: the suite's, with static files, sign-in and the strictest policy."""

import json
import os

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.chat.site"
ASGI_APPLICATION = "tests.chat.site.application"
INSTALLED_APPS = [*INSTALLED_APPS, "django.contrib.staticfiles", "tests.chat"]  # noqa: F405
MIDDLEWARE = ["project.security.StrictContent", *MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]  # noqa: F405
TEMPLATES = [{**TEMPLATES[0], "DIRS": []}]  # noqa: F405  (the project's pages link to its own addresses)
STATIC_URL = "/static/"
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/chat/back/"
CRIOGEN_THREADS = json.loads(os.environ.get("CRIOGEN_TEST_SETTINGS", "{}"))

if "CRIOGEN_TEST_STATIC" in os.environ:  # collected files with hashed names
    STATIC_ROOT = os.environ["CRIOGEN_TEST_STATIC"]
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": os.environ["CRIOGEN_TEST_STORAGE"]},
    }
