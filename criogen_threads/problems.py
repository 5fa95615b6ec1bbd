"""Errors over HTTP: ``application/problem+json`` (RFC 9457), one status for each code, whoever answers."""

from __future__ import annotations

import logging
from functools import wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.db import InterfaceError, OperationalError
from django.http import JsonResponse
from django.utils.translation import gettext_noop as _

from criogen_threads import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from django.http import HttpResponseBase

    View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]

CONTENT_TYPE = "application/problem+json"

CHALLENGE = "Session"
"""What a 401 asks for where no authenticator of the site has a scheme of its own: to log in."""

STATUS = {
    "thread_busy": 409,
    "thread_suspended": 409,
    "thread_interrupted": 409,
    "thread_delegated": 409,
    "resume_invalid": 409,
    "client_id_conflict": 409,
    "not_authenticated": 401,
    "thread_not_found": 404,
    "agent_not_found": 404,
    "run_not_found": 404,
    "checkpoint_not_found": 404,
    "permission_denied": 403,
    "ticket_invalid": 403,
    "invalid_thread_id": 400,
    "invalid_message": 400,
    "invalid_state": 400,
    "invalid_arguments": 400,
    "invalid_event": 400,
    "invalid_option": 400,
    "input_invalid": 400,
    "message_too_large": 413,
    "too_many_runs": 429,
    "too_many_threads": 429,
    "shutting_down": 503,
    "database_unavailable": 503,
    "asgi_required": 501,
}
"""The HTTP status of each code that a request can meet; 500 for any other."""

RETRY_AFTER = {"thread_busy": 1, "thread_suspended": 5, "thread_interrupted": 5, "too_many_runs": 5,
               "too_many_threads": 60,
               "shutting_down": 1, "database_unavailable": 5}  # fmt: skip
"""Seconds after which it may be worth asking again."""

logger = logging.getLogger("criogen_threads")


class NotAuthenticatedError(errors.CriogenError):
    code = "not_authenticated"
    text = _("Log in first.")


def status_of(error: errors.CriogenError) -> int:
    """The status of an error; one that no request should meet is logged."""
    status = STATUS.get(error.code, 500)
    if status == 500:
        logger.error("A request failed: %s", error, exc_info=error)
    return status


def body(status: int, code: str, detail: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body of an error."""
    found: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    return {**found, "details": dict(details)} if details else found


def response(error: errors.CriogenError) -> JsonResponse:
    """An answer that says what is wrong, for views outside of REST framework."""
    status = status_of(error)
    answer = JsonResponse(body(status, error.code, error.shown, error.details), status=status)
    answer["Content-Type"] = CONTENT_TYPE
    if wait := RETRY_AFTER.get(error.code):
        answer["Retry-After"] = str(wait)
    if status == 401:
        answer["WWW-Authenticate"] = CHALLENGE
    return answer


def unavailable(error: BaseException) -> errors.DatabaseUnavailableError:
    """The error for a request that could not reach the database."""
    logger.warning("A request could not reach the database", exc_info=error)
    return errors.DatabaseUnavailableError()


def answered(view: View) -> View:
    """An asynchronous view whose errors are answers."""

    @wraps(view)
    async def wrapped(*args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return await view(*args, **kwargs)
        except errors.CriogenError as error:
            return response(error)
        except (OperationalError, InterfaceError) as error:
            return response(unavailable(error))

    return wrapped
