"""OpenAPI annotations that cost nothing where the extra "schema" (drf-spectacular) is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rest_framework.schemas import DefaultSchema

from criogen_threads.api import shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

try:
    from drf_spectacular import utils as spectacular
    from drf_spectacular.openapi import AutoSchema
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

V = TypeVar("V")

PARAMETERS: dict[str, tuple[Any, str]] = {
    "limit": (int, "Rows on a page, 1 to 200. Default 50."),
    "cursor": (str, "Where to go on; from the `next` of a page."),
    "wait": (float, "Seconds to wait, up to 30. Without it the answer comes at once."),
    "before": (str, "The page that ends right before this one; from the `next` of a page."),
    "after": (int, "Events with a higher `seq`."),
    "epoch": (str, "That of the thread as it was read."),
    "status": (str, "idle, running, suspended, failed or interrupted."),
    "agent": (str, "The name of an agent."),
    "owner": (str, "The primary key of a user, or `me`."),
    "metadata": (str, "A JSON object: what it names must stand in the metadata, equal."),
    "type": (str, "A type of event."),
    "run": (str, "The id of a run."),
    "html": (bool, "Answers with their Markdown as sanitised HTML."),
    "branches": (bool, "Messages with `index` and `siblings`: which it is of those said at its place."),
    "on_busy": (str, "wait, reject or interrupt."),
    "Idempotency-Key": (str, "The same as `client_id`."),
}
"""What the query, or a header, may carry: type and description."""

ERRORS = {
    400: "The request does not fit.",
    401: "Who are you?",
    403: "Not yours to do.",
    404: "Not there, or not yours to see.",
    405: "Not a method of this address.",
    409: "The conversation stands elsewhere.",
    413: "Too large.",
    415: "Not JSON.",
    429: "Too many.",
    503: "Ask again in a moment.",
}


def default_schema() -> Any:
    """The class that describes a view: drf-spectacular's where it is there, whatever the site's default is."""
    return AutoSchema() if AVAILABLE else DefaultSchema()


def describe(
    answers: Mapping[int, Any], *, request: Any = None, parameters: tuple[str, ...] = (), name: str = ""
) -> Callable[[V], V]:
    """Say what a method of a view takes and gives.

    Args:
        answers: By status, a serializer class or None.
        request: The serializer of the body.
        parameters: Names of PARAMETERS.
        name: The operation's id.
    """
    if not AVAILABLE:
        return lambda method: method
    extend = spectacular.extend_schema(
        operation_id=name or None,
        request=request,
        parameters=[_parameter(each) for each in parameters],
        responses={**answers, **_errors()},
    )

    def decorate(method: Any) -> Any:
        method.kwargs = {"schema": AutoSchema}  # what it extends; else that would be the site's default
        return extend(method)

    return decorate


def _parameter(name: str) -> Any:
    kind, description = PARAMETERS[name]
    return spectacular.OpenApiParameter(
        name, kind, "header" if name == "Idempotency-Key" else "query", description=description
    )


def _errors() -> dict[Any, Any]:
    return {
        (status, "application/problem+json"): spectacular.OpenApiResponse(shapes.Problem, description)
        for status, description in ERRORS.items()
    }
