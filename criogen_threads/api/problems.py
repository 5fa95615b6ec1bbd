"""Errors as ``application/problem+json`` (RFC 9457), each with the ``code`` that the Python API has."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, JsonResponse
from django.utils.translation import gettext
from rest_framework import exceptions
from rest_framework.response import Response

from criogen_threads import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENT_TYPE = "application/problem+json"

STATUS = {
    "thread_busy": 409,
    "thread_suspended": 409,
    "thread_interrupted": 409,
    "resume_invalid": 409,
    "client_id_conflict": 409,
    "agent_not_found": 409,
    "thread_not_found": 404,
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


def problem(status: int, code: str, detail: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body of an error."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    return {**body, "details": dict(details)} if details else body


def handle(error: Exception, _context: Any = None) -> Response | None:
    """The exception handler of the package's own views; None for what is a defect, and so Django's to report."""
    if isinstance(error, errors.CriogenError):
        return _of_the_package(error)
    if isinstance(error, exceptions.APIException):
        return _of_the_framework(error)
    if isinstance(error, Http404):
        return _response(404, "not_found", "There is nothing here.")
    if isinstance(error, PermissionDenied):
        return _response(403, "permission_denied", gettext(errors.PermissionDeniedError.text))
    if isinstance(error, RequestDataTooBig):
        return _response(413, "message_too_large", gettext(errors.MessageTooLargeError.text))
    if isinstance(error, OperationalError | InterfaceError):
        logger.warning("A request could not reach the database", exc_info=error)
        return _of_the_package(errors.DatabaseUnavailableError())
    return None


def _of_the_package(error: errors.CriogenError) -> Response:
    status = STATUS.get(error.code, 500)
    if status == 500:
        logger.error("A request failed: %s", error, exc_info=error)
    return _response(status, error.code, error.shown, error.details, RETRY_AFTER.get(error.code))


def _of_the_framework(error: exceptions.APIException) -> Response:
    code, detail, details = str(error.default_code), str(error.detail), {}
    if isinstance(error, exceptions.ValidationError):
        code, detail, details = "invalid_option", "The request does not fit.", {"errors": error.detail}
    response = _response(error.status_code, code, detail, details, getattr(error, "wait", None))
    if challenge := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = challenge
    return response


def _response(
    status: int, code: str, detail: str, details: Mapping[str, Any] | None = None, retry_after: float | None = None
) -> Response:
    response = Response(problem(status, code, detail, details), status=status, content_type=CONTENT_TYPE)
    if retry_after is not None:
        response["Retry-After"] = str(max(1, round(retry_after)))
    return response


def plain_response(error: errors.CriogenError) -> JsonResponse:
    """The same answer outside of REST framework, for plain async views."""
    status = STATUS.get(error.code, 500)
    response = JsonResponse(problem(status, error.code, error.shown, error.details), status=status)
    response["Content-Type"] = CONTENT_TYPE
    if wait := RETRY_AFTER.get(error.code):
        response["Retry-After"] = str(wait)
    return response
