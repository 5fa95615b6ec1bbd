"""A result that repeats a secret argument."""

from __future__ import annotations

from typing import Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.agents.secrecy import MASK, hide_secrets, shown_result, without_secrets


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("the pin is s3cr3t.", f"the pin is {MASK}."),
        ({"s3cr3t": ["s3cr3ts3cr3t", 12345, 1, True, None]}, {MASK: [MASK + MASK, MASK, 1, True, None]}),
        ("s3cr3t-longer", MASK),  # the longer of two that begin alike
        ("12345.0", f"{MASK}.0"),
        ("a.b", "a.b"),  # as it is written, not as a pattern
        ("nothing", "nothing"),
        (12.5, 12.5),
        (None, None),
    ],
)
def test_secrets_are_replaced_wherever_a_result_repeats_them(content: Any, shown: Any) -> None:
    arguments = {"pin": "s3cr3t", "more": {"deep": ["s3cr3t-longer", 12345, "a..b"]}, "note": "nothing"}
    assert without_secrets(content, arguments, ["pin", "more"]) == shown


@pytest.mark.parametrize("short", ["", "abc", 12, True, None, []])
def test_what_is_too_short_to_be_told_from_other_words_is_left(short: Any) -> None:
    assert without_secrets("abc 12 True None", {"pin": short}, ["pin"]) == "abc 12 True None"


@pytest.mark.parametrize("arguments", ['{"pin": "s3cr3t', None, {}, []])
def test_arguments_that_are_none_have_no_secrets(arguments: Any) -> None:
    assert without_secrets("s3cr3t", arguments, ["pin"]) == "s3cr3t"


def test_only_a_result_that_repeats_one_notes_what_is_shown() -> None:
    @tool(secrets=["pin"])
    def check(pin: str) -> str:
        return pin

    for said, shown in (("ok", "ok"), ("s3cr3t", MASK)):
        block = {"tool_result": {"id": "1", "name": "check", "content": said, "is_error": False}}
        hide_secrets(block, {"pin": "s3cr3t"}, check)
        assert ("shown" in block["tool_result"]) == (said != shown)
        assert (block["tool_result"]["content"], shown_result(block["tool_result"])) == (said, shown)
