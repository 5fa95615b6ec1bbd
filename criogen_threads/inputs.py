"""What callers hand in, checked before anything is written."""

from __future__ import annotations

import binascii
import re
import unicodedata
from base64 import b64decode
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils.translation import gettext_noop as _

from criogen_threads import errors, payload
from criogen_threads.conf import settings
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.transcript import text_block

if TYPE_CHECKING:
    from collections.abc import Mapping

    from criogen_threads.backends.base import Block

MAX_KEY = 200
MAX_AGENT = 100
MOST_ROWS = 2**31 - 1
MOST_SECONDS = 2**31 - 1
ON_BUSY = ("wait", "reject", "interrupt")
_LOCALE = re.compile(r"[A-Za-z0-9@_.-]{0,35}")
_EVENT_TYPE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,49}")
_BLOCKS_OF_A_USER = ("text", "image", "file")


def thread_key(key: Any) -> str:
    """The id that a site chose for a thread.

    Raises:
        InvalidThreadIdError: ``invalid_thread_id``.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or key in (".", "..") or any(map(_odd, key)):
        raise errors.InvalidThreadIdError
    return key


def _odd(character: str) -> bool:
    return character == "/" or character.isspace() or unicodedata.category(character) in ("Cc", "Cs")


def message_content(content: Any) -> list[Block]:
    """A user's message as blocks: from text, or from a list of text, image and file blocks.

    Raises:
        InvalidMessageError: ``invalid_message``: empty, or not storable.
        MessageTooLargeError: ``message_too_large``.
    """
    blocks = [text_block(content)] if isinstance(content, str) else content
    try:
        size = len(payload.dumps(blocks).encode())
    except payload.NotStorable as problem:
        raise errors.InvalidMessageError(f"the message cannot be stored: {problem}") from None
    if not isinstance(blocks, list) or not blocks or not all(map(_is_user_block, blocks)):
        raise errors.InvalidMessageError("a message is text, or a list of text, image and file blocks")
    if not any(block.get("text", "x").strip() for block in blocks):
        raise errors.InvalidMessageError(_("the message is empty"))
    if size > settings.MAX_MESSAGE_BYTES:
        raise errors.MessageTooLargeError(
            f"the message has {size} bytes; at most {settings.MAX_MESSAGE_BYTES} are accepted"
        )
    return list(blocks)


def _is_user_block(block: Any) -> bool:
    if not isinstance(block, dict) or len(set(block) & set(_BLOCKS_OF_A_USER)) != 1:
        return False
    if not isinstance(block.get("text", ""), str) or not set(block) <= {*_BLOCKS_OF_A_USER, "provider"}:
        return False
    return "text" in block or _is_media(block.get("image", block.get("file")))


def _is_media(value: Any) -> bool:
    """Whether a provider could be sent it: one that it refuses would be refused with every later turn, too."""
    if not isinstance(value, dict) or not isinstance(value.get("media_type", ""), str):
        return False
    if "data" not in value:
        return isinstance(value.get("url"), str)
    try:
        return bool(b64decode(value["data"], validate=True))
    except (binascii.Error, ValueError, TypeError):
        return False


def state(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a turn adds to the thread's state.

    Raises:
        InvalidStateError: ``invalid_state``.
    """
    try:
        payload.check(dict(values), "state")
    except payload.NotStorable as problem:
        raise errors.InvalidStateError(str(problem)) from None
    return dict(values)


def on_busy(value: str | None) -> str:
    """Raises InvalidOptionError (``invalid_option``) unless it is "wait", "reject" or "interrupt"."""
    chosen = settings.ON_BUSY if value is None else value
    if chosen not in ON_BUSY:
        raise errors.InvalidOptionError(f"on_busy is {chosen!r}, and must be one of {', '.join(ON_BUSY)}")
    return chosen


def client_id(value: str | None) -> str | None:
    """Raises InvalidOptionError (``invalid_option``) unless it is 1 to 200 characters that can be stored."""
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= 200 or any(map(_unstorable, value)):
        raise errors.InvalidOptionError("a client_id has 1 to 200 characters, none of them a control character")
    return value


def _unstorable(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs")


def is_name(value: Any) -> bool:
    """Whether this can be the name of anything: text that a column holds."""
    return isinstance(value, str) and not any(map(_unstorable, value))


def seconds(value: float | None, name: str) -> float | None:
    """Raises InvalidOptionError (``invalid_option``) unless it is a number of seconds, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise errors.InvalidOptionError(f"{name} is a number of seconds, 0 or more")
    return min(value, MOST_SECONDS)


def locale(value: str | None) -> str:
    """Raises InvalidOptionError (``invalid_option``) unless it looks like a language code."""
    if value is None:
        return ""
    if not isinstance(value, str) or not _LOCALE.fullmatch(value):
        raise errors.InvalidOptionError("a locale is a language code such as 'de' or 'pt-br'")
    return value


def identifier(value: Any) -> UUID | None:
    """A UUID from what a caller gave; None when it is none: it then names nothing that exists."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(str(value))
    except ValueError:
        return None


def reason(value: Any) -> str:
    """Why an approval was rejected.

    Raises:
        ResumeInvalidError: ``resume_invalid``: it is not text that can be stored.
    """
    try:
        payload.check(value, "reason")
    except payload.NotStorable as problem:
        raise errors.ResumeInvalidError(str(problem)) from None
    if not isinstance(value, str) or len(value) > 10_000:
        raise errors.ResumeInvalidError(_("a reason is text of at most 10,000 characters"))
    return value


def decision(value: Any) -> Decision:
    """An answer to one approval: True, False, or ``{"approve", "reason", "arguments", "digest"}``.

    Raises:
        ResumeInvalidError: ``resume_invalid``.
    """
    if isinstance(value, Decision):
        return value
    if isinstance(value, bool):
        return Decision(value)
    known = {"approve", "reason", "arguments", "digest"}
    if not isinstance(value, dict) or not isinstance(value.get("approve"), bool) or set(value) - known:
        raise errors.ResumeInvalidError(
            "a decision is True, False or {'approve': bool, 'reason': text, 'arguments': {…}}"
        )
    arguments, digest = value.get("arguments"), value.get("digest") or ""
    if not isinstance(digest, str) or not (arguments is None or isinstance(arguments, dict)):
        raise errors.ResumeInvalidError("edited arguments are a dict, a digest is text")
    if arguments is not None and not value["approve"]:
        raise errors.ResumeInvalidError("a rejected call has no arguments to edit")
    return Decision(value["approve"], reason(value.get("reason") or ""), arguments, digest)


def event(kind: Any, details: Any, agent: Any = None, parent: Any = None) -> None:
    """Check an event of the site's own.

    Raises:
        InvalidEventError: ``invalid_event``.
    """
    if not isinstance(kind, str) or not _EVENT_TYPE.fullmatch(kind):
        raise errors.InvalidEventError("a type has 1 to 50 letters, digits, '_', '-' and '.', a letter first")
    try:
        payload.check(details, "details")
    except payload.NotStorable as problem:
        raise errors.InvalidEventError(str(problem)) from None
    if not isinstance(details, dict | type(None)):
        raise errors.InvalidEventError("details are a dict")
    if agent is not None and not (is_name(agent) and len(agent) <= MAX_AGENT):
        raise errors.InvalidEventError(f"an agent's name has at most {MAX_AGENT} characters")
    if parent is not None and identifier(parent) is None:
        raise errors.InvalidEventError("there is no such parent")


def limit(value: Any, name: str) -> int:
    """Raises InvalidOptionError (``invalid_option``) unless it is a number of rows."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise errors.InvalidOptionError(f"{name} is a number of rows, 0 or more")
    return min(value, MOST_ROWS)
