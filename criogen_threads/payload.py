"""What may be stored as JSON text, and how it is written.

Only values that come back exactly as they went in are accepted: an enum, a tuple or a Decimal would return as
something else, so they are refused at the write.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

from django.utils.crypto import salted_hmac

MAX_DEPTH = 100
MAX_INT_BITS = 10_000  # Python itself refuses to read back integers of more than 4,300 digits
_SCALARS = (str, bool, int, float, type(None))
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class NotStorable(ValueError):
    """The value cannot be stored as JSON; the text says where and why."""


def dumps(value: Any) -> str:
    """Compact JSON that keeps key order and numbers byte for byte.

    Args:
        value: A value that ``check`` accepts.

    Raises:
        NotStorable: The value is not JSON.
    """
    check(value)
    return _compact.encode(value)


def loads(text: str) -> Any:
    return json.loads(text)


def loads_all(texts: Sequence[str | None]) -> list[Any]:
    """Several texts, read as one: most of the time that a short one takes is spent around it. None stays None."""
    values = iter(json.loads(f"[{','.join(text for text in texts if text is not None)}]"))
    return [None if text is None else next(values) for text in texts]


def check(value: Any, path: str = "value", depth: int = 0) -> None:
    """Raise NotStorable unless the value is plain JSON that round-trips."""
    if depth > MAX_DEPTH:
        raise NotStorable(f"{path.partition('.')[0]} is nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if kind is dict:
        _check_dict(value, path, depth)
    elif kind is list:
        for index, item in enumerate(value):
            check(item, f"{path}[{index}]", depth + 1)
    elif kind not in _SCALARS:
        raise NotStorable(f"{path} is a {kind.__name__}, which is not JSON")
    elif kind is str:
        _check_text(value, path)
    elif kind is int and value.bit_length() > MAX_INT_BITS:
        raise NotStorable(f"{path} is an integer of more than {MAX_INT_BITS} bits")
    elif kind is float and not math.isfinite(value):
        raise NotStorable(f"{path} is {value}, which JSON does not have")


def _check_dict(value: dict[Any, Any], path: str, depth: int) -> None:
    for key, item in value.items():
        if type(key) is not str:
            raise NotStorable(f"{path} has the key {key!r}, which is not text")
        _check_text(key, path)
        check(item, f"{path}.{key}", depth + 1)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotStorable(f"{path} holds half of a surrogate pair, which is not text") from None


def digest(value: Any) -> str:
    """A hex digest that two equal JSON values share, for comparing them here and now."""
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def keyed_digest(value: Any) -> str:
    """A digest to store, such as that of the arguments which an approval is bound to.

    Keyed with the site's secret: whoever reads the database cannot try out what was digested.
    """
    return salted_hmac("criogen_threads.arguments", _canonical(value), algorithm="sha256").hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
