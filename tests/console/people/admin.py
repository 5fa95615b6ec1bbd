"""Its own admin, which knows nothing of conversations."""

from __future__ import annotations

from django.contrib import admin

from tests.console.people.models import Person


@admin.register(Person)
class PersonAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["address"]
