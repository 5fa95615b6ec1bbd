"""Running the tools of a run: side by side, atomic ones one after the other."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from django.db import connections

from criogen_threads import payload
from criogen_threads.agents import ToolError
from criogen_threads.agents.secrecy import hide_secrets
from criogen_threads.conf import settings
from criogen_threads.engine import lease as leases
from criogen_threads.engine.journal import saves
from criogen_threads.engine.journal.atomic import atomic_result
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.pools import in_tool_thread, save_in_tool_thread, tamed
from criogen_threads.engine.stoppable import is_being_cancelled
from criogen_threads.engine.transcript import TOOL_FAILED, result_block
from criogen_threads.ids import new_id
from criogen_threads.models import ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from criogen_threads.agents import Tool, ToolContext
    from criogen_threads.engine.loop import Runner

logger = logging.getLogger("criogen_threads")


class Caller:
    """Runs calls for one runner."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.agent = runner.agent
        self.asked = runner.conversation.asked()

    def is_atomic(self, call: ToolCall) -> bool:
        return self._tool(call).atomic

    def _tool(self, call: ToolCall) -> Tool:
        return self.agent.tools[self.asked[call.index]["name"]]

    async def run(self, call: ToolCall) -> None:
        """Run one call and save its result."""
        tool = self._tool(call)
        work = _outcome(tool, self.runner.planner.context(call), call.effective_arguments)
        content, status = await self.runner.interruptible(work)
        await self.runner.save_results([self._result(call, content, status)])

    async def run_atomic(self, calls: Sequence[ToolCall]) -> None:
        """Run atomic calls, each inside the transaction that saves its result."""
        for call in calls:
            await self._run_atomic(call)

    async def _run_atomic(self, call: ToolCall) -> None:
        runner, tool = self.runner, self._tool(call)
        context = runner.planner.context(call)

        def run_tool() -> saves.Result:
            return self._result(call, _called(tool, context, call.effective_arguments), ToolCall.Status.DONE)

        def failed(error: BaseException) -> saves.Result:
            return self._result(call, _failure(tool, error), ToolCall.Status.ERROR)

        saving = save_in_tool_thread(atomic_result, runner.lease, run_tool, failed, new_id(), tool.retries)
        if connections[database()].features.has_select_for_update:
            saved, result = await saving
        else:
            with leases.current().writing_alone():
                saved, result = await saving
        runner.settled([result], saved)

    def _result(self, call: ToolCall, content: Any, status: str) -> saves.Result:
        asked = self.asked[call.index]
        is_error = status != ToolCall.Status.DONE
        block = result_block(asked["id"], asked["name"], content, is_error=is_error)
        hide_secrets(block, call.effective_arguments, self._tool(call))
        return saves.Result(call, block, status, start=self.runner.starts.get(call.id))


async def _outcome(tool: Tool, context: ToolContext, given: Any) -> tuple[Any, str]:
    """What a tool returns, or the text that tells the model how it failed. Never raises what the tool raised."""
    for remaining in range(tool.retries, -1, -1):
        try:
            async with asyncio.timeout(tool.timeout) as limit:
                if tool.is_async:
                    value = _storable(await _alone(tool, context, tool.validate(given)))
                else:
                    value = await in_tool_thread(_called, tool, context, given)
            return value, ToolCall.Status.DONE
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            return _failure(tool, error), ToolCall.Status.ERROR  # the tool cancelled itself
        except Exception as error:
            if limit.expired():
                return _too_slow(tool), ToolCall.Status.ERROR
            if not remaining or isinstance(error, ToolError | NotAResult):
                return _failure(tool, error), ToolCall.Status.ERROR
            logger.warning("The tool %s failed, and is run again", tool.name, exc_info=True)
    raise AssertionError("unreachable")


def _called(tool: Tool, context: ToolContext, given: Any) -> Any:
    """A synchronous tool's result, in its thread from the arguments to what can be stored."""
    return _storable(tool.invoke(context, tool.validate(given)))


async def _alone(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> Any:
    """An async tool in a task of its own: one that cancels its task ends itself only."""

    async def contained() -> tuple[Any, Exception | None]:
        try:
            return await tool.ainvoke(context, arguments), None
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return None, tamed(error)  # a task that raises SystemExit would end the event loop

    value, error = await asyncio.ensure_future(contained())
    if error is not None:
        raise error
    return value


class NotAResult(Exception):
    """What the tool returned cannot be a result."""


def _storable(value: Any) -> Any:
    try:
        size = len(payload.dumps(value).encode())
    except payload.NotStorable as problem:
        raise NotAResult(f"The tool returned something that is not text or JSON: {problem}.") from None
    if size > settings.MAX_RESULT_BYTES:
        raise NotAResult(f"The tool returned {size} bytes; at most {settings.MAX_RESULT_BYTES} can be kept.")
    return value


def _failure(tool: Tool, error: BaseException) -> str:
    """How a failure is told to the model: its own words from a ToolError, else nothing of the site's insides."""
    if isinstance(error, ToolError):
        return _clean(_words(error)) or TOOL_FAILED
    if isinstance(error, NotAResult):
        logger.error("The tool %s: %s", tool.name, error)
        return str(error)
    logger.error("The tool %s failed", tool.name, exc_info=error)
    return TOOL_FAILED


def _words(error: ToolError) -> str:
    try:
        return str(error)
    except Exception:
        logger.exception("A tool's error has no text")
        return ""


def _too_slow(tool: Tool) -> str:
    logger.error("The tool %s took longer than %s seconds", tool.name, tool.timeout)
    return f"The tool took longer than {tool.timeout:g} seconds and was not waited for. It may have taken effect."


def _clean(text: str) -> str:
    """Text that can be stored: half a surrogate pair becomes a replacement character."""
    return text.encode("utf-8", "replace").decode()[: settings.MAX_RESULT_BYTES]
