"""Reading what a client sent: JSON that is really JSON, of a size that can be held."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rest_framework.exceptions import ParseError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser

from criogen_threads.conf import settings
from criogen_threads.errors import MessageTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import IO

    from rest_framework.renderers import BaseRenderer
    from rest_framework.request import Request


def most_bytes() -> int:
    """Bytes of a request's body: a message at its largest, escaped, and what stands around it."""
    return 2 * settings.MAX_MESSAGE_BYTES + 65_536


class StrictJSONParser(BaseParser):
    """A JSON object, without NaN, not too deep and not too large."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """The object.

        Raises:
            ParseError: It is none.
            MessageTooLargeError: ``message_too_large``.
        """
        body = stream.read(most_bytes() + 1)
        if len(body) > most_bytes():
            raise MessageTooLargeError(f"a request has at most {most_bytes()} bytes")
        try:
            value = json.loads(body, parse_constant=_refuse)
        except RecursionError:
            raise ParseError("The JSON is nested too deeply.") from None
        except ValueError as error:
            raise ParseError(f"This is not JSON: {error}"[:300]) from None
        if not isinstance(value, dict):
            raise ParseError("A request is a JSON object.")
        return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


class OnlyJSON(BaseContentNegotiation):
    """There is one parser and one renderer: whatever a client says that it accepts, it is given JSON."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        """The parser, unless the client says that it sends something else."""
        kind = str(request.content_type or "").partition(";")[0].strip().lower()
        return next(iter(parsers)) if kind in ("application/json", "") else None

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type
