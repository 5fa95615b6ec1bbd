"""The graceful stop for servers that run no ``atexit``, such as uvicorn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from criogen_threads.engine import stopping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Application = Callable[[Any, Any, Any], Awaitable[None]]


def with_lifespan(application: Application) -> Application:
    """An ASGI application that answers the server's ``lifespan``: at its shutdown this process stops gracefully.

    Args:
        application: The site's, which knows nothing of ``lifespan``.
    """

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await application(scope, receive, send)

    return wrapped


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            await asyncio.to_thread(stopping.stop)
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
