"""A site with that user model: run as a program, it says what the console shows there."""

from __future__ import annotations

import django
from django.conf import settings

from tests import settings as suite


def main() -> None:
    own = {name: getattr(suite, name) for name in dir(suite) if name.isupper()}
    apps = [*suite.INSTALLED_APPS, "tests.console.people"]
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
    changed = {"INSTALLED_APPS": apps, "DATABASES": {"default": database}, "AUTH_USER_MODEL": "people.Person"}
    settings.configure(**{**own, **changed, "STATIC_URL": "/static/"})
    django.setup()
    from django.core.management import call_command
    from django.test import Client

    from criogen_threads.models import Thread
    from tests.console.people.models import Person

    call_command("migrate", run_syncdb=True, verbosity=0)
    boss = Person.objects.create(address="boss@example.com", is_staff=True, is_superuser=True)
    ann = Person.objects.create(address="ann@example.com")
    thread = Thread.objects.create(key="one", agent="desk", owner=ann)
    client = Client()
    client.force_login(boss)
    link = f"/admin/criogen_threads/thread/?owner__id__exact={ann.pk}"
    assert link in client.get(f"/admin/people/person/{ann.pk}/change/").content.decode(), "no link"
    for address in (link, "/admin/criogen_threads/thread/?q=ann@"):
        assert str(thread.pk) in client.get(address).content.decode(), address
    print("the console works with it")


if __name__ == "__main__":
    main()
