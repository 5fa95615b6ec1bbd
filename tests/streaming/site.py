"""The site of the web processes that tests start."""

from __future__ import annotations

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.urls import include, path

http = get_asgi_application()
wsgi = get_wsgi_application()

from criogen_threads.streaming import sse  # noqa: E402
from criogen_threads.streaming.lifespan import with_lifespan  # noqa: E402
from criogen_threads.streaming.routing import websocket_urlpatterns  # noqa: E402

urlpatterns = [
    path("api/", include("criogen_threads.api.urls")),
    path("stream/<str:key>/", sse.events),
]
application = with_lifespan(ProtocolTypeRouter({"http": http, "websocket": URLRouter(websocket_urlpatterns)}))
