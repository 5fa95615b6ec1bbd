"""What is read from a tool's function: the context, the types, the docstring."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import Tool, ToolContext, tool
from criogen_threads.agents import ToolContext as Renamed
from tests.agents.contexts import a_context

if TYPE_CHECKING:
    from collections import OrderedDict

    import criogen_threads.agents as typing_only
    from criogen_threads.agents.context import ToolContext as HiddenContext  # noqa: F401


class Desk:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def lookup(self, context: ToolContext, order: str) -> str:
        """Look up an order."""
        return f"{self.prefix}{order} for {context.thread}"

    async def __call__(self, order: str) -> str:
        return f"{self.prefix}{order}"


def annotated(order: str, ctx: ToolContext) -> str:
    return f"{order} {ctx.thread}"


def first_and_positional_only(ctx: ToolContext, /, order: str) -> str:
    return f"{order} {ctx.thread}"


def renamed(order: str, ctx: Renamed | None = None) -> str:
    return f"{order} {ctx.thread}"


def only_named(context, order: str) -> str:
    return f"{order} {context.thread}"


def only_for_type_checking(ctx: typing_only.ToolContext, order: str) -> str:
    return f"{order} {ctx.thread}"


@pytest.mark.parametrize(
    "function", [annotated, first_and_positional_only, renamed, only_named, only_for_type_checking]
)
def test_the_context_is_found_given_and_not_shown_to_the_model(function):
    made = Tool(function)
    assert list(made.parameters["properties"]) == ["order"]
    assert made.invoke(a_context(), made.validate({"order": "17"})) == "17 user-42"


def test_a_tool_may_do_without_context():
    @tool
    def add(a: int, b: int = 2) -> str:
        return str(a + b)

    assert add.invoke(a_context(), add.validate({"a": 1})) == "3"


def test_an_argument_of_the_model_may_be_called_context():
    @tool
    def search(context: str) -> str:
        return context

    assert search.invoke(a_context(), search.validate({"context": "refunds"})) == "refunds"


def test_the_model_cannot_send_the_context():
    made = Tool(only_named)
    with pytest.raises(ValueError, match="context: unknown argument"):
        made.validate({"order": "17", "context": "mine"})


def test_methods_and_partials_and_callable_objects_are_functions_too():
    made = Tool(Desk("A-").lookup)
    assert (made.name, made.description) == ("lookup", "Look up an order.")
    assert made.invoke(a_context(), made.validate({"order": "1"})) == "A-1 for user-42"

    filled_in = Tool(functools.partial(annotated, order="fixed"), name="fixed")
    assert filled_in.parameters["properties"] == {}
    assert filled_in.invoke(a_context(), filled_in.validate({})) == "fixed user-42"

    assert Tool(Desk("A-"), name="desk").is_async


def two_contexts(one: ToolContext, two: ToolContext) -> str: ...


def unannotated(order, amount: int) -> str: ...


def any_positions(*orders: str) -> str: ...


def any_names(**orders: str) -> str: ...


def positional_only(order: str, /) -> str: ...


def typing_only_type(order: OrderedDict[str, str]) -> str: ...


def unknown_type(order: NoSuchType) -> str: ...  # noqa: F821


def not_json(desk: Desk) -> str: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (two_contexts, "two of its parameters"),
        (unannotated, "'order' has no type annotation"),
        (any_positions, r"\*orders"),
        (any_names, r"\*\*orders"),
        (positional_only, "passed by name"),
        (typing_only_type, "'order' cannot be resolved.*not only for type checking"),
        (unknown_type, "'order' cannot be resolved.*NoSuchType"),
        (not_json, "no JSON schema"),
    ],
)
def test_a_function_that_no_model_can_call_is_refused_by_name(function, reason):
    with pytest.raises(ImproperlyConfigured, match=rf"Tool '{function.__name__}'.*{reason}"):
        Tool(function)


def test_the_docstring_describes_the_tool_and_its_arguments():
    @tool
    def book(day: str, hour: int, note: str = "", silent: bool = False) -> str:
        """Book a call-back
        for the customer.

        Only on working days.

        Args:
            day: The day,
                as YYYY-MM-DD.
            hour (int): From 8 to 18: local time.
            note: What it is about.

        Returns:
            silent: is not described here.
        """

    assert book.description == "Book a call-back for the customer."
    described = {name: shown.get("description") for name, shown in book.parameters["properties"].items()}
    assert described == {
        "day": "The day, as YYYY-MM-DD.",
        "hour": "From 8 to 18: local time.",
        "note": "What it is about.",
        "silent": None,
    }


def test_a_docstring_of_arguments_only_is_no_description():
    @tool
    def book(day: str) -> str:
        """Args:
        day: The day.
        """

    assert book.description == ""
