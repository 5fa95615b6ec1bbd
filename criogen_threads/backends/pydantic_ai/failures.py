"""What an exception of pydantic-ai, or of an HTTP client below it, means for a run."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

from criogen_threads.backends import extra_for
from criogen_threads.backends.base import ModelError

PASSING_STATUSES = frozenset({408, 409, 425, 429})
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def model_error(error: Exception, name: str) -> ModelError | None:
    """The ModelError for an exception, or None for one that is no failure of the model's.

    The message is of our own making: a provider's text may repeat the request or the API key.

    Args:
        error: What a request raised.
        name: How the message calls the model.
    """
    if isinstance(error, ModelError):
        return error
    if isinstance(error, ImportError):
        return ModelError(f"{name} needs a client: install criogen-threads[{extra_for(name)}]", passing=False)
    from pydantic_ai import exceptions

    if isinstance(error, exceptions.FallbackExceptionGroup):
        return _any_of([model_error(each, name) for each in error.exceptions], name)
    if isinstance(error, exceptions.ModelHTTPError):
        return _refused(error, name)
    if isinstance(error, exceptions.ModelAPIError):
        return _unanswered(error, name)
    if isinstance(error, exceptions.UnexpectedModelBehavior):
        filtered = isinstance(error, exceptions.ContentFilterError)
        what = "refused for its content filter" if filtered else "sent an answer that makes no sense"
        return ModelError(f"{name} {what}", passing=not filtered)
    if isinstance(error, exceptions.UserError):
        return ModelError(f"{name} is not set up rightly: its name, key or settings", passing=False)
    if isinstance(error, _connection_errors()):
        return ModelError(f"{name} could not be reached ({type(error).__name__})", passing=True)
    return None


def _refused(error: Any, name: str) -> ModelError:
    status = error.status_code
    passing = (status in PASSING_STATUSES or status >= 500) and not _is(error, "ModelQuotaExceededError")
    message = f"{name} answered with HTTP {status}{_code(error)}"
    return ModelError(message, passing=passing, retry_after=_wait(error))


def _unanswered(error: Any, name: str) -> ModelError:
    passing = not _is(error, "ModelQuotaExceededError", "ModelRequestRejectedError")
    what = "broke off or could not be reached" if passing else "refused the request"
    message = f"{name} {what} ({_kind(error)}{_code(error)})"
    return ModelError(message, passing=passing, retry_after=_wait(error))


def _any_of(failures: list[ModelError | None], name: str) -> ModelError | None:
    if any(failure is None for failure in failures):
        return None
    known = [failure for failure in failures if failure is not None]
    waits = [failure.retry_after for failure in known if failure.retry_after is not None]
    return ModelError(
        f"{name}: every model failed: " + "; ".join(str(failure) for failure in known),
        passing=any(failure.passing for failure in known),
        retry_after=min(waits, default=None),
    )


def _is(error: Exception, *names: str) -> bool:
    # by name: not every supported version has these classes
    return any(cls.__name__ in names for cls in type(error).__mro__)


def _kind(error: Exception) -> str:
    cause = error.__cause__
    return type(cause if cause is not None else error).__name__


def _code(error: Any) -> str:
    code = getattr(error, "provider_error_code", None)
    return f", {code}" if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _wait(error: Any) -> float | None:
    seconds = getattr(error, "retry_after", None)
    if isinstance(seconds, int | float) and math.isfinite(seconds) and seconds >= 0:
        return float(seconds)
    return None


def _connection_errors() -> tuple[type[Exception], ...]:
    clients = [sys.modules[name] for name in ("httpx2", "httpx") if name in sys.modules]
    return (OSError, *(kind for client in clients for kind in (client.TransportError, client.StreamError)))
