"""What may be stored as JSON text: only what comes back exactly as it went in."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict, namedtuple
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from criogen_threads import payload

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


class Number(enum.IntEnum):
    ONE = 1


class Word(str):
    pass


Pair = namedtuple("Pair", "a b")


def _same(a: Any, b: Any) -> bool:
    """Equal in value, in type and in the order of keys."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


@given(JSON)
def test_what_is_accepted_comes_back_exactly(value: Any) -> None:
    assert _same(payload.loads(payload.dumps(value)), value)


@given(JSON)
def test_it_is_compact_and_its_digest_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    assert payload.digest(value) == payload.digest(turned(value))
    assert len(payload.digest(value)) == 64


def test_digests_of_different_values_differ() -> None:
    values = [{"a": 1}, {"a": "1"}, {"a": 1.5}, {"b": 1}, [1, 2], [2, 1], "", None, {"a": None}, True, "true"]
    assert len({payload.digest(value) for value in values}) == len(values)


def test_p40_a_stored_digest_is_keyed_with_the_secret_of_the_site(settings: SettingsWrapper) -> None:
    value = {"amount": 1}
    digest = payload.keyed_digest(value)
    assert len(digest) == 64
    assert digest == payload.keyed_digest(dict(value))
    assert digest != payload.keyed_digest({"amount": 2})
    assert digest != payload.digest(value)
    settings.SECRET_KEY = "another"
    assert digest != payload.keyed_digest(value)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Number.ONE,
        Word("x"),
        (1, 2),
        Pair(1, 2),
        {1, 2},
        b"x",
        Decimal(1),
        OrderedDict(a=1),
        {1: 2},
        {None: 1},
        {Word("a"): 1},
        float("nan"),
        float("inf"),
        -float("inf"),
        "\ud800",
        {"\udc00": 1},
        1 << 10_001,
        1j,
    ],
    ids=[
        "object",
        "enum",
        "str subclass",
        "tuple",
        "named tuple",
        "set",
        "bytes",
        "decimal",
        "ordered dict",
        "int key",
        "none key",
        "subclass key",
        "nan",
        "inf",
        "-inf",
        "half",
        "half key",
        "huge",
        "complex",
    ],
)
@pytest.mark.parametrize("depth", [0, 2])
def test_f39_f40_f41_what_would_come_back_as_something_else_is_refused(value: Any, depth: int) -> None:
    for _ in range(depth):
        value = {"a": [value]}
    with pytest.raises(payload.NotStorable):
        payload.dumps(value)


def test_the_text_of_a_refusal_says_where() -> None:
    with pytest.raises(payload.NotStorable, match=r"state\.a\[1\]\.b is a set, which is not JSON"):
        payload.check({"a": [0, {"b": {1}}]}, "state")


@pytest.mark.parametrize(
    ("levels", "fits"), [(payload.MAX_DEPTH, True), (payload.MAX_DEPTH + 1, False), (100_000, False)]
)
def test_f40_deep_nesting(levels: int, fits: bool) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    if fits:
        assert payload.loads(payload.dumps(value)) == value
    else:
        with pytest.raises(payload.NotStorable, match="nested deeper than 100 levels"):
            payload.dumps(value)


def test_f40_the_longest_integer_that_is_accepted_can_be_read_back() -> None:
    longest = (1 << payload.MAX_INT_BITS) - 1
    assert payload.loads(payload.dumps([longest, -longest])) == [longest, -longest]


def test_f38_nul_and_every_kind_of_text() -> None:
    text = "\0\x1f\u2028 \U0001f468\u200d\U0001f469 \u202e rtl"
    assert payload.loads(payload.dumps({text: text})) == {text: text}
    assert payload.dumps({"b": 1.0, "a": "é"}) == '{"b":1.0,"a":"é"}'
