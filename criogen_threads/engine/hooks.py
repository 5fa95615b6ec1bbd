"""Calling a site's hooks, so that nothing that they do makes untrue what is saved."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from criogen_threads import errors
from criogen_threads.engine.pools import tamed
from criogen_threads.engine.stoppable import UNSAVED, is_being_cancelled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger("criogen_threads")

T = TypeVar("T")


async def called(hook: Callable[..., Awaitable[T]], *args: Any, of: Any = object) -> T:
    """What a hook returns.

    Args:
        of: What that may be.

    Raises:
        CriogenError: One that can be saved: the hook's own, else ``internal_error``.
    """
    try:
        value, error = await asyncio.ensure_future(_contained(hook, args))
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        value, error = None, RuntimeError("it cancelled itself")
    if error is None and not isinstance(value, of):
        error = TypeError(f"it returned a {type(value).__name__}")
    if error is None:
        return value  # type: ignore[return-value]
    if isinstance(error, errors.CriogenError) and not isinstance(error, UNSAVED):
        raise error
    name = getattr(hook, "__qualname__", hook)
    logger.error("The hook %s failed", name, exc_info=error)
    raise errors.InternalError(f"the hook {name} failed") from error


async def told(hook: Callable[..., Awaitable[Any]], *args: Any) -> None:
    """Call a hook about what is saved already; what it raises is logged, and changes nothing."""
    try:
        await called(hook, *args)
    except errors.CriogenError:
        logger.warning("What a hook raised after the save changes nothing", exc_info=True)


async def _contained(hook: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> tuple[T | None, Exception | None]:
    try:
        return await hook(*args), None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, tamed(error)  # a task that raises SystemExit would end the event loop
