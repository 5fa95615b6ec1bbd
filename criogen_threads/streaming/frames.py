"""Frames of a client: what they may be, and how an answer finds its way back to the one that asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _

from criogen_threads import errors

if TYPE_CHECKING:
    from collections.abc import Mapping


class FrameInvalidError(errors.CriogenError):
    code = "frame_invalid"
    text = _("The frame is not one that this socket understands.")


class FrameTooLargeError(errors.CriogenError):
    code = "frame_too_large"
    text = "A frame has at most 1 MiB."


class OriginRefusedError(errors.CriogenError):
    code = "origin_refused"
    text = "This origin may not open websockets here."


class SilentError(errors.CriogenError):
    code = "silent"
    text = "No sign of life from this client."


def echo(frame: Mapping[str, Any]) -> dict[str, Any]:
    """The id that a client gave its frame, so that it knows the answer."""
    given = frame.get("id")
    if type(given) is int or (isinstance(given, str) and len(given) <= 200):
        return {"id": given}
    return {}


def parse(text: str | None) -> dict[str, Any]:
    """A frame from what came over the wire.

    Raises:
        FrameInvalidError: ``frame_invalid``: binary, not JSON, not an object, or nested too deep.
    """
    if text is None:
        raise FrameInvalidError("binary frames are not understood")
    try:
        frame = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise FrameInvalidError("the frame is not JSON, or nested too deep") from None
    if not isinstance(frame, dict):
        raise FrameInvalidError("a frame is a JSON object")
    return frame


def _no_constant(name: str) -> None:
    raise ValueError(name)
