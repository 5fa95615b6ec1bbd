"""What a model may send to a tool: the JSON schema that it is shown, and the check of what it sent.

Here for parameters that are read from a function's type hints, with pydantic; a schema that is data has the
same interface in ``data_schema``.
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from criogen_threads import payload
from criogen_threads.agents.signature import described_arguments, resolve_annotation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from criogen_threads.agents.signature import Signature

logger = logging.getLogger(__name__)

MAX_PROBLEMS = 5  # of one call, told to the model
MAX_NAME = 60  # characters of a name that the model made up
MAX_REASON = 200  # characters of one reason


class InvalidArguments(ValueError):
    """The arguments do not fit the tool. The text tells the model which one, and why, on one line.

    Values are never part of it: they may be long, or secret.
    """


class Parameters(ABC):
    """A tool's parameters.

    Attributes:
        schema: The JSON schema that the model is shown; the same, byte for byte, on every start.
        names: The parameters that the schema declares.
        plain: Checking arguments runs nothing of the site's: no validator, no pattern, no class of its own.
    """

    schema: dict[str, Any]
    names: tuple[str, ...]
    plain: bool = False

    def validate(self, arguments: Any) -> dict[str, Any]:
        """The arguments as the function takes them.

        Raises:
            InvalidArguments: They are not a JSON object, name an unknown argument, or do not fit the schema.
        """
        if type(arguments) is not dict:
            raise InvalidArguments("invalid arguments: they must be a JSON object")
        try:
            payload.check(arguments, "arguments")
        except payload.NotStorable as error:
            raise InvalidArguments(f"invalid arguments: {shorten(str(error), MAX_REASON)}") from None
        try:
            return self._validated(arguments)
        except InvalidArguments:
            raise
        except Exception:
            # A site's own validator that raises, a schema that recurses for ever: the turn goes on.
            logger.exception("The arguments of a tool call could not be checked")
            raise InvalidArguments("invalid arguments: they could not be checked") from None

    @abstractmethod
    def _validated(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The converted arguments, or InvalidArguments."""

    def _unknown(self, name: str) -> str:
        return f"{name}: unknown argument (known: {', '.join(self.names) or 'none'})"


class TypedParameters(Parameters):
    """Parameters read from the type hints of a function; a default makes one optional.

    Args:
        signature: The function's parameters without the context.

    Raises:
        ImproperlyConfigured: A parameter cannot be described to a model.
    """

    def __init__(self, signature: Signature) -> None:
        self.names = tuple(parameter.name for parameter in signature.parameters)
        self._model = _arguments_model(signature)
        self.plain = all(not f.metadata and _is_plain(f.annotation) for f in self._model.model_fields.values())
        try:
            schema = self._model.model_json_schema(schema_generator=_SchemaWithoutTitles)
        except Exception as error:
            raise _undescribable(signature, error) from error
        if tuple(schema["properties"]) != self.names:
            raise ImproperlyConfigured(f"Tool {signature.tool!r}: its parameters cannot have an alias.")
        self.schema = _described(schema, described_arguments(signature.function))

    def _validated(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            # As JSON, not as Python values: what JSON lacks (dates, decimals, bytes) is read from text.
            values = self._model.model_validate_json(json.dumps(arguments))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            texts = [self._problem(problem) for problem in problems[:MAX_PROBLEMS]]
            raise invalid(texts, more=len(problems) - len(texts)) from None
        return {name: getattr(values, f"p{index}") for index, name in enumerate(self.names)}

    def _problem(self, problem: Mapping[str, Any]) -> str:
        path = problem["loc"]
        if problem["type"] == "extra_forbidden" and len(path) == 1:
            return self._unknown(location(path))
        reason = "required, but missing" if problem["type"] == "missing" else problem["msg"]
        return f"{location(path)}: {shorten(reason, MAX_REASON)}"


class _SchemaWithoutTitles(GenerateJsonSchema):
    """Titles repeat the names and cost tokens; defaults that are not JSON are left out of the schema."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _arguments_model(signature: Signature) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(signature.parameters):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ImproperlyConfigured(
                f"Tool {signature.tool!r}: its function has the parameter {str(parameter)!r}; a model "
                f"can only fill in parameters that are passed by name."
            )
        annotation = resolve_annotation(signature.tool, signature.function, parameter)
        default = ... if parameter.default is parameter.empty else parameter.default
        # A name of our own and the real one as alias: a parameter may be called like a method of BaseModel.
        fields[f"p{index}"] = (Annotated[annotation, Field(alias=parameter.name)], default)
    # NaN passes every comparison that a tool or an approval function makes of an amount.
    config = ConfigDict(extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)
    try:
        return create_model("Arguments", __config__=config, **fields)
    except Exception as error:
        raise _undescribable(signature, error) from error


def _is_plain(annotation: Any) -> bool:
    """Whether a type hint is made of what JSON has, and nothing else."""
    origin = get_origin(annotation)
    if origin is Literal:
        return True
    if origin in (list, dict, Union, UnionType):
        return all(map(_is_plain, get_args(annotation)))
    return annotation in (str, int, float, bool, None, type(None), Any, list, dict)


def _undescribable(signature: Signature, error: Exception) -> ImproperlyConfigured:
    reason = shorten(str(error), MAX_REASON)
    return ImproperlyConfigured(f"Tool {signature.tool!r}: its parameters have no JSON schema: {reason}")


def _described(schema: dict[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """Add what the docstring says; a description that stands at the type itself goes first."""
    properties = {
        name: {"description": descriptions[name], **declared} if name in descriptions else declared
        for name, declared in schema["properties"].items()
    }
    return {key: properties if key == "properties" else value for key, value in schema.items() if key != "title"}


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters of the text, on one line."""
    line = " ".join(text[: limit + 1].split())
    return f"{line[:limit]}…" if len(text) > limit else line


def invalid(problems: Iterable[str], *, more: int = 0) -> InvalidArguments:
    """The error that tells the model of these problems, and how many more there are."""
    rest = f"; and {more} more" if more else ""
    return InvalidArguments("invalid arguments: " + "; ".join(problems) + rest)


def location(path: Iterable[str | int]) -> str:
    """Where in the arguments: ``lines[0].sku``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shorten(part, MAX_NAME)}"
    return shorten(text.removeprefix("."), MAX_REASON)
