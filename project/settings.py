"""Settings of the small site that shows criogen_threads at work.

The environment decides: ``DATABASE_URL`` (default: a SQLite file beside manage.py), ``SECRET_KEY``, ``DEBUG``
("1" or "0"; by default on as long as there is no SECRET_KEY), ``ALLOWED_HOSTS`` (comma-separated),
``TLS_PROXY`` ("1" where a proxy ends TLS and sets X-Forwarded-Proto), ``CRIOGEN_MODEL`` (the model of the
support desk, such as "openai:gpt-5-mini"; "scripted" works offline) and ``DESK_DELAY`` (seconds that the desk takes
to look up an order: time to kill it and to see it go on).
"""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from project.database import database

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = os.environ.get("SECRET_KEY", "")
DEBUG = os.environ.get("DEBUG", "0" if SECRET_KEY else "1") == "1"
if not SECRET_KEY:
    if not DEBUG:
        raise ImproperlyConfigured("Without DEBUG=1 the site needs a SECRET_KEY.")
    SECRET_KEY = "insecure: only for trying things out"  # noqa: S105  (DEBUG is on)
ALLOWED_HOSTS = [host for host in os.environ.get("ALLOWED_HOSTS", "").split(",") if host]

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "criogen_threads",
    "project.desk",
]

MIDDLEWARE = [
    "project.security.StrictContent",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
WSGI_APPLICATION = "project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": database(os.environ.get("DATABASE_URL") or f"sqlite:///{BASE_DIR / 'db.sqlite3'}")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
LOCALE_PATHS = [BASE_DIR / "project" / "locale"]
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "build" / "static"

# Behind TLS, which is what DEBUG off means here.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not DEBUG
SECURE_SSL_REDIRECT = not DEBUG
SECURE_HSTS_SECONDS = 0 if DEBUG else 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = not DEBUG
if os.environ.get("TLS_PROXY") == "1":
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# The model of the support desk: CRIOGEN_MODEL, else one of the provider whose key is there, else the script.
PROVIDERS = {
    "OPENAI_API_KEY": "openai:gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5",
    "GOOGLE_API_KEY": "google:gemini-2.5-flash",
}
DESK_MODEL = os.environ.get("CRIOGEN_MODEL") or next(
    (model for key, model in PROVIDERS.items() if os.environ.get(key)), "scripted"
)
DESK_DELAY = float(os.environ.get("DESK_DELAY") or 0)

LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = LOGOUT_REDIRECT_URL = "desk:chat"

# Whoever comes may talk to the support desk, and takes the conversation along when signing in.
CRIOGEN_THREADS: dict[str, object] = {"VISITOR_AGENTS": ["desk"]}

SPECTACULAR_SETTINGS = {"TITLE": "criogen_threads", "VERSION": "0.1.0"}
