"""Parameters from type hints: what the model is shown, and what becomes of what it sends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, field_validator

from criogen_threads.agents import InvalidArguments, Tool, tool


class Reason(Enum):
    DAMAGED = "damaged"
    LATE = "late"


class Line(BaseModel):
    sku: str
    count: int = 1


class Broken(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def look(cls, value: str) -> str:
        raise RuntimeError(value)


def refund(
    order: str,
    amount: Decimal,
    reason: Reason = Reason.LATE,
    lines: list[Line] = [],  # noqa: B006
    on: date | None = None,
    share: float = 1.0,
    _model_copy: Annotated[int, Field(ge=0, description="How many.")] = 0,
) -> str:
    """Refund.

    Args:
        order: The number.
        _model_copy: Less telling than the annotation.
    """


TOOL = Tool(refund)
FIT: dict[str, Any] = {"order": "17", "amount": 19.9}


def refusal(arguments: Any, made: Tool = TOOL) -> str:
    with pytest.raises(InvalidArguments) as caught:
        made.validate(arguments)
    text = str(caught.value)
    assert len(text) < 1500
    assert "\n" not in text
    return text


def test_the_schema_is_what_the_hints_say():
    assert TOOL.parameters["required"] == ["order", "amount"]
    assert TOOL.parameters["additionalProperties"] is False
    properties = TOOL.parameters["properties"]
    assert properties["order"] == {"description": "The number.", "type": "string"}
    assert properties["_model_copy"] == {
        "default": 0, "description": "How many.", "minimum": 0, "type": "integer",
    }  # fmt: skip
    assert "title" not in TOOL.parameters


def test_a_tool_without_parameters_takes_an_empty_object():
    @tool
    def ping() -> str: ...

    assert ping.parameters == {"additionalProperties": False, "properties": {}, "type": "object"}
    assert ping.validate({}) == {}
    assert refusal({"x": 1}, ping) == "invalid arguments: x: unknown argument (known: none)"


def test_the_schema_is_the_same_text_in_every_process():
    script = (
        "import json; from tests.agents.test_schema import TOOL;"
        " print(json.dumps([TOOL.parameters, TOOL.name, TOOL.description]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert texts == {json.dumps([TOOL.parameters, TOOL.name, TOOL.description]) + "\n"}


def test_arguments_become_the_types_of_the_hints_and_defaults_are_filled_in():
    sent = {**FIT, "reason": "damaged", "lines": [{"sku": "a"}], "on": "2026-03-01", "_model_copy": "3"}
    assert TOOL.validate(sent) == {
        "order": "17",
        "amount": Decimal("19.9"),
        "reason": Reason.DAMAGED,
        "lines": [Line(sku="a")],
        "on": date(2026, 3, 1),
        "share": 1.0,
        "_model_copy": 3,
    }
    assert TOOL.validate(FIT)["reason"] is Reason.LATE


def test_a_default_that_a_tool_changes_is_not_the_next_calls_default():
    TOOL.validate(FIT)["lines"].append("changed")
    assert TOOL.validate(FIT)["lines"] == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"order": "17"}, "amount: required, but missing"),
        ({**FIT, "amount": "much"}, "amount: Input should be a valid decimal"),
        ({**FIT, "ammount": 1}, "ammount: unknown argument (known: order, amount, "),
        ({**FIT, "p0": "1"}, "p0: unknown argument"),
        ({**FIT, "lines": [{"sku": "a"}, {"count": 1}]}, "lines[1].sku: required, but missing"),
        ({**FIT, "reason": "bored"}, "reason: Input should be 'damaged' or 'late'"),
        ({**FIT, "_model_copy": -1}, "_model_copy: Input should be greater than or equal to 0"),
        ({**FIT, "lines": [1] * 8}, "lines[4]: Input should be an object; and 3 more"),
    ],
)
def test_b9_the_model_is_told_which_argument_is_wrong_and_why(arguments, reason):
    assert reason in refusal(arguments)


@pytest.mark.parametrize("arguments", [None, "{not json", "{}", 3, True, [], [FIT], (), {1: 2}.keys()])
def test_b9_what_is_not_an_object_is_refused(arguments):
    assert refusal(arguments) == "invalid arguments: they must be a JSON object"


def nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "arguments.share is nan"),
        (float("inf"), "arguments.share is inf"),
        ("NaN", "share: Input should be a finite number"),
        (10**4000, "arguments.share is an integer of more than"),
        (10**2000, "share: Input should be a finite number"),
        ("9" * 1_000_000, "share: Input should be a"),
        (nested(99), "share: Input should be a valid number"),
        (nested(200), "nested deeper than 100 levels"),
        ("\ud800", "surrogate"),
        (Decimal(1), "arguments.share is a Decimal, which is not JSON"),
        (["x"] * 100_000, "share: Input should be a valid number"),
    ],
)
def test_f39_f40_hostile_values_are_refused_and_never_echoed(value, reason):
    assert reason in refusal({**FIT, "share": value})


def test_f40_a_million_characters_reach_the_tool_and_their_name_does_not_come_back():
    long = "x" * 1_000_000
    assert TOOL.validate({**FIT, "order": long})["order"] == long
    assert "x" * 61 not in refusal({**FIT, long: 1})
    assert refusal({**FIT, "a\nb": 1}).startswith("invalid arguments: a b: unknown argument")


def test_a_value_is_never_part_of_the_message():
    @tool(secrets=["pin"])
    def unlock(pin: Annotated[str, Field(max_length=4)], level: Literal[1, 2]) -> str: ...

    text = refusal({"pin": "hunter2", "level": "topsecret"}, unlock)
    assert "pin: String should have at most 4 characters; level: Input should be 1 or 2" in text
    assert "hunter2" not in text
    assert "topsecret" not in text


def test_a_sites_own_validator_that_breaks_does_not_end_the_turn(caplog):
    @tool
    def break_it(item: Broken) -> str: ...

    assert refusal({"item": {"text": "x"}}, break_it) == "invalid arguments: they could not be checked"
    assert "RuntimeError: x" in caplog.text


def test_an_alias_is_refused():
    def aliased(order: str = Field("x", alias="number")) -> str: ...

    with pytest.raises(ImproperlyConfigured, match=r"Tool 'aliased'.*alias"):
        Tool(aliased)


def test_a_default_that_is_not_json_stays_out_of_the_schema():
    marker = object()

    @tool
    def mark(what: Any = marker) -> str: ...

    assert mark.parameters["properties"] == {"what": {}}
    assert mark.validate({})["what"] is marker


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*TOOL.parameters["properties"], "other"]), JSON) | JSON)
def test_whatever_is_sent_it_fits_or_is_refused_in_one_line(arguments):
    try:
        accepted = list(TOOL.validate(arguments))
    except InvalidArguments as error:
        refused = str(error)
    else:
        refused = ""
        assert accepted == list(TOOL.parameters["properties"])
    assert re.fullmatch(r"(invalid arguments: .{1,1400})?", refused)


def _of_hint(hint: Any) -> Tool:
    def look(value):
        """Look."""

    look.__annotations__["value"] = hint
    return Tool(look)


@pytest.mark.parametrize("hint", [str, int | None, list[dict[str, float]], Literal["a", "b"], dict, Any])
def test_hints_of_what_json_has_run_nothing_of_the_site_s(hint):
    assert _of_hint(hint).is_plain


@pytest.mark.parametrize(
    "hint", [Annotated[str, AfterValidator(str.strip)], list[Annotated[int, Field(gt=0)]], date, Decimal]
)
def test_any_other_hint_may_run_the_site_s_code(hint):
    assert not _of_hint(hint).is_plain


def test_who_must_approve_is_the_site_s_to_say_where_it_is_a_function():
    def look(order: str):
        """Look."""

    assert Tool(look, approval="staff").is_plain
    assert not Tool(look, approval=lambda context, order: True).is_plain
    assert not Tool(look, parameters={"type": "object", "properties": {"order": {"pattern": "(a+)+b"}}}).is_plain
