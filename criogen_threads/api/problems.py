"""Errors as ``application/problem+json`` (RFC 9457), each with the ``code`` that the Python API has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.utils.translation import gettext
from rest_framework import exceptions
from rest_framework.response import Response

from criogen_threads import errors, problems

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        return _of_the_package(problems.unavailable(error))
    return None


def _of_the_package(error: errors.CriogenError) -> Response:
    wait = problems.RETRY_AFTER.get(error.code)
    return _response(problems.status_of(error), error.code, error.shown, error.details, wait)


def _of_the_framework(error: exceptions.APIException) -> Response:
    code, detail, details = str(error.default_code), str(error.detail), {}
    if isinstance(error, exceptions.ValidationError):
        code, detail, details = "invalid_option", "The request does not fit.", {"errors": error.detail}
    nobody = isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed)
    status = 401 if nobody else error.status_code  # REST framework's 403 is for want of a scheme
    response = _response(status, code, detail, details, getattr(error, "wait", None))
    if nobody:
        response["WWW-Authenticate"] = getattr(error, "auth_header", None) or problems.CHALLENGE
    return response


def _response(
    status: int, code: str, detail: str, details: Mapping[str, Any] | None = None, retry_after: float | None = None
) -> Response:
    response = Response(problems.body(status, code, detail, details), status=status, content_type=problems.CONTENT_TYPE)
    if retry_after is not None:
        response["Retry-After"] = str(max(1, round(retry_after)))
    return response
