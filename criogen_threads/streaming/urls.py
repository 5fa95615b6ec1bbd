"""The AG-UI endpoint, which the addresses of the API include."""

from __future__ import annotations

from django.urls import path

from criogen_threads.streaming.endpoint import agui

app_name = "criogen_streaming"

urlpatterns = [path("agui/<str:agent>/", agui, name="agui")]
