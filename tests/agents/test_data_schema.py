"""Parameters from a schema that is data."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import InvalidArguments, Tool, ToolContext
from tests.agents.contexts import a_context

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "pattern": "^[0-9]+$", "description": "The number."},
        "count": {"type": "integer", "maximum": 5},
        "to": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "array", "items": {"type": "string"}}]},
        "line": {
            "type": "object",
            "properties": {"sku": {"enum": ["a", "b"]}},
            "required": ["sku"],
            "additionalProperties": False,
        },
        "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        "tree": {"$ref": "#/$defs/tree"},
        "tags": {"type": "array", "uniqueItems": True},
        "step": {"multipleOf": 0.1},
    },
    "required": ["order"],
    "$defs": {"tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}}},
}


def everything(context: ToolContext, **arguments: Any) -> Any:
    return arguments


def made(schema: Any = SCHEMA, function: Any = everything, **options: Any) -> Tool:
    return Tool(function, name="lookup", description="Look up.", parameters=schema, **options)


def refusal(arguments: Any, lookup: Tool | None = None) -> str:
    with pytest.raises(InvalidArguments) as caught:
        (lookup or made()).validate(arguments)
    text = str(caught.value)
    assert len(text) < 1500
    assert "\n" not in text
    return text


def test_the_arguments_reach_the_function_by_name_exactly_as_sent():
    sent = {"order": "17", "count": 5.0, "line": {"sku": "a"}, "tags": [1, True, "1"]}
    lookup = made()
    received = lookup.invoke(a_context(), lookup.validate(sent))
    assert repr(received) == repr(sent)
    assert lookup.parameters == SCHEMA


def test_what_a_tool_changes_in_its_arguments_is_not_changed_in_what_was_sent():
    sent = {"order": "17", "line": {"sku": "a"}}
    made().validate(sent)["line"]["sku"] = "b"
    assert sent["line"]["sku"] == "a"


def test_the_schema_is_a_copy():
    schema = {"type": "object", "properties": {"order": {"type": "string"}}}
    lookup = made(schema)
    schema["properties"]["order"]["type"] = "integer"
    assert lookup.parameters["properties"]["order"] == {"type": "string"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "arguments: 'order' is required, but missing"),
        ({"order": "secret"}, "order: does not match '^[0-9]+$'"),
        ({"order": "y" * 1_000_000}, "order: does not match '^[0-9]+$'"),
        ({"order": "1", "count": 10**2000}, "count: is greater than the maximum of 5"),
        ({"order": "1", "to": ["a", 2]}, "to[1]: is not of type 'string'"),
        ({"order": "1", "line": {"sku": "secret"}}, "line.sku: is not one of ['a', 'b']"),
        ({"order": "1", "line": {}}, "line: 'sku' is required, but missing"),
        ({"order": "1", "line": {"sku": "a", "x": 1}}, "line: Additional properties are not allowed ('x'"),
        ({"order": "1", "pair": ["a", "secret"]}, "pair: has more items than are allowed"),
        ({"order": "1", "tree": {"a": {"b": "secret"}}}, "tree.a.b: is not of type 'object'"),
        ({"order": "1", "tags": [{"a": 1}, {"a": 1}]}, "tags: has items that are the same"),
        ({"order": "1", "step": float("nan")}, "arguments.step is nan"),
        ({"order": "1", "step": 10**2000 + 1}, "they could not be checked"),
        (
            {"order": "1", "ordr": 1, "z" * 1000: 2},
            "ordr, " + "z" * 60 + "…: unknown argument (known: order,",
        ),
        ({"order": "1", "context": 1}, "context: unknown argument"),
        ("{", "they must be a JSON object"),
    ],
)
def test_b9_the_model_is_told_what_is_wrong_without_the_value(arguments, reason):
    text = refusal(arguments)
    assert reason in text
    assert "secret" not in text


def test_f40_nesting_up_to_the_limit_is_checked():
    tree: dict[str, Any] = {}
    for _ in range(97):
        tree = {"a": tree}
    assert made().validate({"order": "1", "tree": tree})["tree"] == tree
    assert "deeper than 100" in refusal({"order": "1", "tree": {"a": {"a": {"a": {"a": tree}}}}})


def test_f40_thousands_of_objects_are_compared_at_once():
    tags = [{"a": number} for number in range(20_000)]
    assert made().validate({"order": "1", "tags": tags})["tags"] == tags


BASE = {"type": "object", "$defs": {"base": {"properties": {"order": {"type": "string"}}}}}


@pytest.mark.parametrize("more", [{"allOf": [{"$ref": "#/$defs/base"}]}, {"$ref": "#/$defs/base"}])
def test_what_another_part_of_the_schema_declares_is_known(more):
    lookup = made({**BASE, **more})
    assert lookup.validate({"order": "1"}) == {"order": "1"}
    assert "ordr: unknown argument" in refusal({"ordr": "1"}, lookup)


def test_an_older_draft_is_closed_too():
    lookup = made({"$schema": "http://json-schema.org/draft-07/schema#", **SCHEMA})
    assert "ordr: unknown argument" in refusal({"order": "1", "ordr": 1}, lookup)


def test_a_schema_may_be_open_as_far_as_the_function_is():
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert made(schema).validate({"a": 1}) == {"a": 1}
    assert "a: is not of type 'integer'" in refusal({"a": "x"}, made(schema))

    def one(a: int) -> Any: ...

    assert "b: unknown argument" in refusal({"b": 1}, made(schema, one))


def test_a_recursion_without_end_does_not_end_the_turn():
    endless = {"$ref": "#/$defs/a"}
    lookup = made({"type": "object", "properties": {"order": endless}, "$defs": {"a": endless}})
    assert refusal({"order": "1"}, lookup) == "invalid arguments: they could not be checked"


def only_order(context: ToolContext, order: str) -> Any: ...


def by_position(order: str, /) -> Any: ...


@pytest.mark.parametrize(
    ("schema", "function", "reason"),
    [
        ({"type": "array"}, everything, 'must have the type "object"'),
        ({}, everything, 'must have the type "object"'),
        ([], everything, "not a JSON schema"),
        ({"type": "obj"}, everything, "not a JSON schema"),
        ({"type": "object", "maxProperties": float("nan")}, everything, "nan"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, everything, "not a JSON schema"),
        (
            {"type": "object", "properties": {"a": {"$ref": "https://x.test/b"}}},
            everything,
            "not a JSON schema",
        ),
        (SCHEMA, only_order, "does not take 'count'"),
        ({"type": "object", "properties": {"context": {}}}, everything, "does not take 'context'"),
        ({"type": "object"}, by_position, "must take 'order' by name"),
    ],
)
def test_a_schema_that_cannot_work_is_refused_by_name(schema, function, reason):
    with pytest.raises(ImproperlyConfigured, match=rf"Tool 'lookup'.*{reason}"):
        made(schema, function)


def test_secrets_name_properties():
    assert made(secrets=["order"]).secrets == ("order",)
    with pytest.raises(ImproperlyConfigured, match="Tool 'lookup': secrets names 'pin'"):
        made(secrets=["pin"])
