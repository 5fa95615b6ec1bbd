"""Values that are no JSON, and some that are and look odd."""

from __future__ import annotations

import enum
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

HALF = "half of \ud83d a pair"
NUL = "before\0after"


class Colour(enum.Enum):
    RED = "red"


class Size(enum.StrEnum):
    BIG = "big"


class Level(enum.IntEnum):
    HIGH = 3


class Text(str):
    __slots__ = ()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def looped() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


NOT_JSON: dict[str, Any] = {
    "object": object(), "enum": Colour.RED, "text enum": Size.BIG, "number enum": Level.HIGH, "tuple": (1, 2),
    "set": {1}, "bytes": b"a", "decimal": Decimal(1), "date": datetime.now(UTC), "NaN": math.nan, "inf": math.inf,
    "minus inf": -math.inf, "key": {1: "a"}, "key of none": {None: "a"}, "key of a class": {Size.BIG: 1},
    "half a pair": HALF, "half a key": {HALF: 1}, "200 deep": nested(200), "itself": looped(),
    "5,000 digits": 10**5000, "inside": {"a": [{"b": Level.HIGH}]}, "function": print, "text of a class": Text("a"),
}  # fmt: skip
JSON = [
    2**63, -(2**64), 2**200, 10**2500, 0.1, -0.0, 5e-324, 1e308, True, None, "", "\0", nested(90), {"": {}}
]  # fmt: skip
