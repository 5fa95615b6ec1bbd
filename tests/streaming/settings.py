"""Settings of the web processes that tests start: the suite's, with a channel layer where one is named."""

import json
import os

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.streaming.site"
ASGI_APPLICATION = "tests.streaming.site.application"
MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *MIDDLEWARE]  # noqa: F405
INSTALLED_APPS = [*INSTALLED_APPS, "tests.streaming"]  # noqa: F405  (its agents)
TEMPLATES = [{**TEMPLATES[0], "DIRS": []}]  # noqa: F405  (the project's pages link to its own addresses)
CRIOGEN_THREADS = json.loads(os.environ.get("CRIOGEN_TEST_SETTINGS", "{}"))

if "CRIOGEN_TEST_POOL_SECONDS" in os.environ:
    patience = {"timeout": float(os.environ["CRIOGEN_TEST_POOL_SECONDS"]), "reconnect_timeout": 0.1}
    DATABASES["default"]["OPTIONS"]["pool"] |= patience  # noqa: F405

if "CRIOGEN_TEST_LAYER" in os.environ:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "tests.streaming.layers.LossyLayer",
            "CONFIG": {"hosts": [os.environ["CRIOGEN_TEST_LAYER"]]},
        }
    }
