"""The websocket route: ``websocket_urlpatterns``, for the URLRouter of the site's asgi.py."""

from __future__ import annotations

from django.urls import path

from criogen_threads.streaming.consumers import ThreadConsumer

websocket_urlpatterns = [path("ws/threads/<str:key>/", ThreadConsumer.as_asgi())]
