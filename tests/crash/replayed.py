"""A process that goes on with a recorded conversation until it is killed, or to its end.

``python -m tests.crash.replayed URL RECORDING LEDGER [DIES]``: URL is that of the replay server. DIES is the place
where it kills itself: ``inside 1.2`` is in the tool that the second answer of the second turn asks for, once that
has taken effect, ``after 1.2`` is the model's next request, when the result is saved.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

django.setup()

from django.conf import settings  # noqa: E402

from criogen_threads.backends.base import ModelBackend  # noqa: E402
from project.desk.models import CallBack  # noqa: E402
from tests.crash.actors import append  # noqa: E402
from tests.replay.support import Conversation  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from criogen_threads.agents import ToolContext
    from criogen_threads.backends.base import Delta, ModelAnswer, ModelRequest
    from criogen_threads.threads import ThreadHandle

LEASE_SECONDS = 1


class Mortal(Conversation):
    """The conversation of a process that dies at a given place. Its tools leave a trace of every effect."""

    def __init__(self, recording_id: str, ledger: Path, dies: str) -> None:
        super().__init__(recording_id)
        self.ledger = ledger
        self.dies = dies
        self.last = ""

    def reach(self, place: str) -> None:
        if place == self.dies:
            os.kill(os.getpid(), signal.SIGKILL)

    def work(self, schema: dict[str, Any], context: ToolContext, arguments: dict[str, Any]) -> str:
        place = f"{context.state['turn']}.{context.idempotency_key.split(':')[1]}"
        if schema["consequential"]:
            CallBack.objects.create(phone=place, when="now")
        else:
            append(self.ledger, place)
        self.last = place
        self.reach(f"inside {place}")
        return super().work(schema, context, arguments)

    def backend(self, url: str) -> ModelBackend:
        return Watched(self, super().backend(url))


class Watched(ModelBackend):
    """The real client; the process may die while it waits for it."""

    def __init__(self, conversation: Mortal, client: ModelBackend) -> None:
        self.conversation = conversation
        self.client = client

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelAnswer]:
        async for piece in self.client.stream(request):
            self.conversation.reach(f"after {self.conversation.last}")
            yield piece


async def go_on(chat: ThreadHandle, conversation: Mortal) -> None:
    if await chat.get_current_run():
        await chat.retry()
    begun = sum(message["role"] == "user" for message in await chat.messages())
    for number in range(begun, len(conversation.turns)):
        await chat.send(conversation.turns[number].text, turn=number)


def main(url: str, recording_id: str, ledger: str, dies: str = "") -> None:
    settings.CRIOGEN_THREADS = {"LEASE_SECONDS": LEASE_SECONDS, "HEARTBEAT_SECONDS": LEASE_SECONDS / 4}
    conversation = Mortal(recording_id, Path(ledger), dies)
    agent = conversation.agent(url, atomic=True)
    asyncio.run(go_on(agent.thread(recording_id), conversation))


if __name__ == "__main__":
    main(*sys.argv[1:])
