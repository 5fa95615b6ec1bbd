"""What callers hand in, checked without a database."""

from __future__ import annotations

import unicodedata
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from criogen_threads import inputs
from criogen_threads.engine.journal.posts import Decision
from tests.support import refused


@given(st.text(max_size=220))
def test_f37_a_thread_id_is_kept_as_it_is_or_refused(key: str) -> None:
    bad = (
        not 1 <= len(key) <= 200
        or key in (".", "..")
        or any(c == "/" or c.isspace() or unicodedata.category(c) in ("Cc", "Cs") for c in key)
    )
    if bad:
        with refused("invalid_thread_id"):
            inputs.thread_key(key)
    else:
        assert inputs.thread_key(key) == key


@pytest.mark.parametrize("key", ["user-42", "é", "a:b", "…", "x" * 200, "..."])
def test_thread_ids_that_sites_choose(key: str) -> None:
    assert inputs.thread_key(key) == key


@pytest.mark.parametrize(
    "key", ["", ".", "..", "a/b", "a b", "a\n", "\0", "x" * 201, "\ud800", None, 5, b"x", "x" * 10_000]
)
def test_f37_thread_ids_that_are_refused(key: Any) -> None:
    with refused("invalid_thread_id"):
        inputs.thread_key(key)


def test_a_message_is_text_or_blocks() -> None:
    assert inputs.message_content("Hi\0") == [{"text": "Hi\0"}]
    blocks = [{"text": "look"}, {"image": {"url": "https://example.org/a.png"}}]
    assert inputs.message_content(blocks) == blocks


@pytest.mark.parametrize(
    "content", ["", "  \n", [], [{}], None, 5, {"text": "x"}, [{"text": 5}], ["x"], [{"tool_call": {}}], [{"text": ""}],
                [{"text": "a", "image": {}}], "\ud800", [{"text": "a", "extra": 1}]],
    ids=repr,
)  # fmt: skip
def test_messages_that_are_refused(content: Any) -> None:
    with refused("invalid_message"):
        inputs.message_content(content)


def test_a_message_may_have_so_many_bytes_and_no_more(settings: Any) -> None:
    settings.CRIOGEN_THREADS = {"MAX_MESSAGE_BYTES": 100}
    assert inputs.message_content("x" * 80)
    with refused("message_too_large"):
        inputs.message_content("x" * 100)
    with refused("message_too_large"):
        inputs.message_content("é" * 50)


def test_a_decision_is_yes_no_or_a_dict() -> None:
    assert inputs.decision(True) == Decision(approve=True)
    assert inputs.decision(False) == Decision(approve=False)
    given = {"approve": True, "reason": "ok", "arguments": {"n": 1}, "digest": "d"}
    assert inputs.decision(given) == Decision(True, "ok", {"n": 1}, "d")


@pytest.mark.parametrize("value", ["", "../x", None, 5, "not-a-uuid", b"x", object()])
def test_what_is_no_id_names_nothing(value: Any) -> None:
    assert inputs.identifier(value) is None


def test_an_id_may_be_text() -> None:
    wanted = uuid4()
    assert inputs.identifier(str(wanted)) == inputs.identifier(wanted) == wanted


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (lambda value: inputs.seconds(value, "timeout"), [None, 0, 0.5, 60], [-1, float("nan"), True, "5"]),
        (inputs.on_busy, ["wait", "reject", "interrupt"], ["", "WAIT", 5]),
        (inputs.client_id, ["c", "x" * 200, "ä-1"], ["", "x" * 201, "a\n", 5]),
        (inputs.locale, ["de", "pt-br", "sr@latin"], ["d e", "x" * 36, 5]),
    ],
)
def test_options(check: Any, good: list[Any], bad: list[Any]) -> None:
    assert [check(value) for value in good] == good
    for value in bad:
        with refused("invalid_option"):
            check(value)


@pytest.mark.parametrize("value", [float("inf"), 10**400])
def test_seconds_without_an_end_are_a_number_that_a_clock_can_reach(value: float) -> None:
    assert inputs.seconds(value, "timeout") == inputs.MOST_SECONDS
