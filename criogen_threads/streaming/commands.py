"""What a client may ask for over a websocket: one function for each frame that changes something.

Each saves and returns: the run itself goes on in the dispatcher. Nobody waits in here for a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.agents import get_agent
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming.frames import FrameInvalidError
from criogen_threads.threads import ThreadHandle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from criogen_threads.streaming.visitor import Sight, Visitor

    Frame = dict[str, Any]
    Command = Callable[["Request"], Awaitable[dict[str, Any]]]


class Request:
    """One frame of a client, with who sent it."""

    def __init__(self, key: str, visitor: Visitor, sight: Sight, frame: Frame, ticket: Any) -> None:
        self.key = key
        self.visitor = visitor
        self.sight = sight
        self.frame = frame
        self.ticket = frame.get("ticket", ticket)

    def value(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A value of the frame.

        Raises:
            FrameInvalidError: ``frame_invalid``: it is of another type.
        """
        value = self.frame.get(name, default)
        if value is not default and not isinstance(value, kind):
            raise FrameInvalidError(f"{name!r} has a value of the wrong type")
        return value

    async def handle(self) -> ThreadHandle:
        """The thread as this user's.

        Raises:
            ThreadNotFoundError: ``thread_not_found``.
        """
        if self.sight.thread is None:
            raise errors.ThreadNotFoundError
        agent = await in_database(get_agent, self.sight.thread.agent)
        return ThreadHandle(self.key, agent=agent, actor=self.sight.user)

    async def handle_to_send(self) -> ThreadHandle:
        """As ``handle``, or a thread that this user may begin."""
        if self.sight.thread is not None:
            return await self.handle()
        agent = await in_database(self.visitor.agent_for, self.key, self.ticket, self.frame.get("agent"))
        return ThreadHandle(self.key, agent=agent, actor=self.sight.user)


async def send(request: Request) -> dict[str, Any]:
    """``{"type": "send", "text" or "content", "client_id", "on_busy", "state", "locale", "checkpoint"}``."""
    text = request.value("text", str)
    content = text if text is not None else request.value("content", list)
    if content is None:
        raise FrameInvalidError("'text' or 'content' is missing")
    state = request.value("state", dict, {})
    handle = await request.handle_to_send()
    run = await handle.enqueue(
        content, on_busy=request.value("on_busy", str), client_id=request.value("client_id", str),
        locale=request.value("locale", str), state=state, checkpoint=request.value("checkpoint", str), timeout=0,
    )  # fmt: skip
    return {"run": run, "client_id": request.frame.get("client_id")}


async def answer(request: Request) -> dict[str, Any]:
    """``{"type": "answer", "decisions": {id: true, false or {"approve", "reason", "arguments", "digest"}}}``."""
    decisions = request.value("decisions", dict)
    if decisions is None:
        raise FrameInvalidError("'decisions' is missing")
    return {"run": await (await request.handle()).answer(decisions)}


async def cancel(request: Request) -> dict[str, Any]:
    """``{"type": "cancel", "run"}``: exactly this run, so that a late wish never stops a newer one."""
    run = request.value("run", str)
    if run is None:
        raise FrameInvalidError("'run' is missing")
    return {"run": run, "stopped": await (await request.handle()).ask_to_stop(run)}


async def retry(request: Request) -> dict[str, Any]:
    """``{"type": "retry"}``."""
    return {"run": await (await request.handle()).request_retry()}


async def rewind(request: Request) -> dict[str, Any]:
    """``{"type": "rewind", "checkpoint"}``; on a busy thread ``thread_busy``."""
    checkpoint = request.value("checkpoint", str)
    if checkpoint is None:
        raise FrameInvalidError("'checkpoint' is missing")
    head = await (await request.handle()).rewind(checkpoint, on_busy="reject")
    return {"checkpoint": head}


COMMANDS: dict[str, Command] = {
    "send": send,
    "answer": answer,
    "cancel": cancel,
    "retry": retry,
    "rewind": rewind,
}
