"""A site with the chat on its pages, for the tests' browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application

http = get_asgi_application()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.views import LoginView  # noqa: E402
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.shortcuts import render  # noqa: E402
from django.urls import include, path, re_path  # noqa: E402
from django.views.static import serve  # noqa: E402

from criogen_threads.streaming.lifespan import with_lifespan  # noqa: E402
from criogen_threads.streaming.routing import websocket_urlpatterns  # noqa: E402

if TYPE_CHECKING:
    from django.http import HttpRequest


def chat(request: HttpRequest, key: str) -> HttpResponse:
    """The page; its query says how the chat is configured."""
    query = request.GET
    context = {
        "key": key,
        "agent": query.get("agent", "puppet"),
        "title": query.get("title", ""),
        "welcome": query.get("welcome", ""),
        "suggestions": query.getlist("ask"),
        "launcher": "launcher" in query,
        "theme": query.get("theme", ""),
        "language": query.get("language", "en"),
        "socket": query.get("socket", "ws/threads/"),
    }
    return render(request, "chat/page.html", context)


urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("criogen_threads.api.urls")),
    path("login/", LoginView.as_view(template_name="chat/login.html")),
    path("favicon.ico", lambda _: HttpResponse(status=204)),
    path("chat/<str:key>/", chat),
]
if settings.STATIC_ROOT:
    urlpatterns.append(re_path(r"^static/(?P<path>.*)$", serve, {"document_root": settings.STATIC_ROOT}))
    pages = http
else:
    pages = ASGIStaticFilesHandler(http)
application = with_lifespan(ProtocolTypeRouter({"http": pages, "websocket": URLRouter(websocket_urlpatterns)}))
