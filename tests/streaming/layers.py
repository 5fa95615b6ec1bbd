"""A channel layer that loses some of its messages."""

from __future__ import annotations

import os
import random
from typing import Any

from channels_redis.pubsub import RedisPubSubChannelLayer

LOSS = float(os.environ.get("CRIOGEN_TEST_LOSS", "0"))


class LossyLayer(RedisPubSubChannelLayer):  # type: ignore[misc]
    """Over Valkey; ``CRIOGEN_TEST_LOSS`` is the part that is lost, 0 to 1."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return _losing(found) if name in ("send", "group_send") else found


def _losing(send: Any) -> Any:
    async def maybe(where: str, message: dict[str, Any]) -> None:
        if random.random() >= LOSS:
            await send(where, message)

    return maybe
