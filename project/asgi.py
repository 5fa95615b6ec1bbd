"""The site for an ASGI server: ``daphne project.asgi:application``."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

http = get_asgi_application()  # first: it loads the apps

from criogen_threads.streaming.lifespan import with_lifespan  # noqa: E402
from criogen_threads.streaming.routing import websocket_urlpatterns  # noqa: E402

application = with_lifespan(ProtocolTypeRouter({"http": http, "websocket": URLRouter(websocket_urlpatterns)}))
