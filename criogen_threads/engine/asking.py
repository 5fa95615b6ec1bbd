"""One question to the model: streamed, watched for silence, sent again when it failed for a passing reason."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from criogen_threads import errors, payload
from criogen_threads.backends.base import ModelAnswer, ModelError, ModelRequest, TextDelta
from criogen_threads.conf import settings
from criogen_threads.engine.hooks import called
from criogen_threads.engine.listening import delta_event, discarded_event
from criogen_threads.engine.pools import in_tool_thread, tamed
from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from criogen_threads.agents import Agent, Handling, ToolContext
    from criogen_threads.backends.base import Delta
    from criogen_threads.engine.loop import Runner
    from criogen_threads.engine.viewing import View

logger = logging.getLogger("criogen_threads")


class Request:
    """One answer that a run needs. Each sending has a message id of its own: two answers are never mixed."""

    def __init__(self, agent: Agent, context: ToolContext, view: View, runner: Runner) -> None:
        self.agent = agent
        self.context = context
        self.view = view
        self.runner = runner
        self.message_id = new_id()

    async def send(self) -> ModelAnswer:
        """The model's answer, or that of the site's handling.

        Raises:
            ModelFailedError: ``model_failed``: refused, or still failing after ``MODEL_RETRIES`` repeats.
        """
        request, handling = await self._request(), self.agent.handling
        if handling is None:
            return await self._sent(request)
        request = await self._hook(handling.before_step, request, of=ModelRequest)
        answer = await self._hook(handling.answer, request, of=ModelAnswer | None)
        if answer is None:
            answer = await self._sent_or_replaced(handling, request)
        changed = await self._hook(handling.after_step, answer, of=ModelAnswer)
        if changed.content != answer.content:
            self._discard()
        return _of_a_hook(changed)

    async def _hook(self, hook: Callable[..., Awaitable[Any]], *args: Any, of: Any) -> Any:
        return await self.runner.interruptible(called(hook, self.context, *args, of=of))

    async def _sent_or_replaced(self, handling: Handling, request: ModelRequest) -> ModelAnswer:
        try:
            return await self._sent(request)
        except errors.ModelFailedError as error:
            answer = await self._hook(handling.on_step_error, error, of=ModelAnswer | None)
            if answer is None:
                raise
            self._discard()
            return _of_a_hook(answer)

    async def _sent(self, request: ModelRequest) -> ModelAnswer:
        pause = settings.MODEL_BACKOFF
        for remaining in range(settings.MODEL_RETRIES, -1, -1):
            try:
                return await self.runner.interruptible(self._stream(request))
            except ModelError as error:
                if not error.passing or not remaining:
                    raise errors.ModelFailedError(str(error)) from error
                logger.warning("The model failed for a passing reason, and is asked again: %s", error)
                wait = pause if error.retry_after is None else error.retry_after
            self._discard()
            await self.runner.interruptible(asyncio.sleep(wait))
            pause *= 2
        raise AssertionError("unreachable")

    async def _request(self) -> ModelRequest:
        try:
            if self.agent.has_fixed_instructions:
                instructions = self.agent.instructions_for(self.context)
            else:
                instructions = await in_tool_thread(self.agent.instructions_for, self.context)
        except Exception as error:
            logger.exception("The instructions of the agent %s failed", self.agent.name)
            raise errors.InternalError("the agent's instructions failed") from error
        return ModelRequest(
            instructions=instructions,
            messages=self.view.blocks(),
            tools=self.agent.definitions(),
            settings=self.agent.settings,
        )

    async def _stream(self, request: ModelRequest) -> ModelAnswer:
        """One sending: passes the pieces on, returns the whole."""
        answer: ModelAnswer | None = None
        idle = settings.MODEL_TIMEOUT
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(idle) as silence, aclosing(self.agent.backend.stream(request)) as stream:
                async for piece in stream:
                    silence.reschedule(clock() + idle)
                    if isinstance(piece, ModelAnswer):
                        answer = piece
                    else:
                        self._pass_on(piece)
        except TimeoutError:
            raise ModelError(f"the model was silent for {idle:g} seconds", passing=True) from None
        except (ModelError, errors.CriogenError, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as cause:  # a task that raises SystemExit would end the event loop
            error = tamed(cause)
            logger.exception("The model of the agent %s failed", self.agent.name)
            raise ModelError(f"{type(error).__name__}: {error}"[:1000], passing=False) from error
        return _checked(answer)

    def _pass_on(self, piece: Delta) -> None:
        if isinstance(piece, TextDelta):
            self.runner.partial += piece.text
        self.runner.hear(delta_event(self.runner.run_id, self.message_id, piece))

    def _discard(self) -> None:
        """The half answer is void; the next one is another message."""
        self.runner.partial = ""
        self.runner.hear(discarded_event(self.runner.run_id, self.message_id))
        self.message_id = new_id()


def _of_a_hook(answer: ModelAnswer) -> ModelAnswer:
    """What a hook answers has to be storable, like what a model does."""
    try:
        return _checked(answer)
    except ModelError as error:
        raise errors.InternalError(f"a hook gave an answer that is none: {error}") from error


def _checked(answer: ModelAnswer | None) -> ModelAnswer:
    if answer is None:
        raise ModelError("the stream ended without an answer", passing=True)
    try:
        payload.check(answer.content, "answer")
    except payload.NotStorable as problem:
        raise ModelError(f"the answer cannot be stored: {problem}", passing=True) from None
    if not isinstance(answer.content, list) or not all(map(_is_block, answer.content)):
        raise ModelError("the answer is not a list of blocks", passing=False)
    return answer


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict) or not block:
        return False
    call = block.get("tool_call", {"id": "", "name": "", "arguments": {}})
    texts = [block.get("text", ""), block.get("reasoning", "")]
    if not isinstance(call, dict) or "arguments" not in call:
        return False
    return all(isinstance(text, str) for text in (*texts, call.get("id"), call.get("name")))
