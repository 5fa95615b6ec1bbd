"""Parameters whose JSON schema is data, checked with jsonschema."""

from __future__ import annotations

from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import ImproperlyConfigured
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import Draft202012Validator, extend, validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from criogen_threads import payload
from criogen_threads.agents.schema import (
    MAX_NAME,
    MAX_PROBLEMS,
    MAX_REASON,
    Parameters,
    invalid,
    location,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from criogen_threads.agents.signature import Signature

_UNEVALUATED = "unevaluatedProperties"  # like additionalProperties, but sees what allOf and $ref declare


class SchemaParameters(Parameters):
    """Parameters given as a JSON schema (draft 2020-12 unless it names another). ``format`` is not enforced.

    Args:
        signature: The parameters of the function, which takes the arguments by name.
        schema: A schema of type "object". Arguments that it does not declare are refused, unless it has
            ``additionalProperties``.

    Raises:
        ImproperlyConfigured: It is no such schema, or the function does not take what it declares.
    """

    def __init__(self, signature: Signature, schema: Mapping[str, Any]) -> None:
        _check_schema(signature.tool, schema)
        self.schema = deepcopy(dict(schema))
        self.names = tuple(self.schema.get("properties", {}))
        named = (p.name for p in signature.parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))
        self._accepted = None if signature.takes_any_keyword else frozenset(named)
        self._context = signature.context.name if signature.context else None
        self._check_function(signature)
        closed = _closed(self.schema)
        draft = validator_for(closed, default=Draft202012Validator)
        own = {"uniqueItems": _unique_items}
        self._validator = extend(draft, own)(closed, registry=Registry())  # type: ignore[no-untyped-call]

    def _validated(self, arguments: dict[str, Any]) -> dict[str, Any]:
        unknown = [name for name in arguments if not self._takes(name)]
        if unknown:
            raise invalid([self._unknown(_names(unknown))])
        problems = list(islice(self._validator.iter_errors(arguments), MAX_PROBLEMS))
        if problems:
            raise invalid(self._problem(problem) for problem in problems)
        return deepcopy(arguments)

    def _takes(self, name: str) -> bool:
        return name != self._context and (self._accepted is None or name in self._accepted)

    def _problem(self, violation: ValidationError) -> str:
        problem = best_match([violation])  # of an anyOf, the alternative that was meant
        path = list(problem.absolute_path)
        if problem.validator in ("additionalProperties", _UNEVALUATED) and not path:
            unknown = [name for name in cast("dict[str, Any]", problem.instance) if name not in self.names]
            return self._unknown(_names(unknown))
        where = location(path) if path else "arguments"
        return f"{where}: {shorten(_reason(problem), MAX_REASON)}"

    def _check_function(self, signature: Signature) -> None:
        for name in self.names:
            if not self._takes(name):
                raise ImproperlyConfigured(
                    f"Tool {signature.tool!r}: its function does not take {name!r}, which the schema has."
                )
        for parameter in signature.parameters:
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise ImproperlyConfigured(
                    f"Tool {signature.tool!r}: its function must take {parameter.name!r} by name."
                )


def _check_schema(tool: str, schema: Any) -> None:
    try:
        payload.check(schema, "schema")
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
        for reference in _references(schema):
            # Nothing is ever fetched: a reference that leads out of the schema fails here.
            resource = Resource.from_contents(schema, default_specification=DRAFT202012)
            Registry().resolver_with_root(resource).lookup(reference)
    except Exception as error:
        reason = shorten(str(error), MAX_REASON)
        raise ImproperlyConfigured(f"Tool {tool!r}: its parameters are not a JSON schema: {reason}") from error
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ImproperlyConfigured(f'Tool {tool!r}: the schema of its parameters must have the type "object".')


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item)
    elif isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for item in schema.values():
            yield from _references(item)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that refuses what it does not declare; older drafts cannot look into allOf and $ref."""
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return schema
    keywords = validator_for(schema, default=Draft202012Validator).VALIDATORS
    return {**schema, _UNEVALUATED if _UNEVALUATED in keywords else "additionalProperties": False}


def _reason(problem: ValidationError) -> str:
    """Why, without the value: jsonschema's own texts begin with it, or list it."""
    message = str(problem.message)
    if problem.schema is False:
        return "is not allowed"
    if problem.validator in ("additionalItems", "unevaluatedItems", "items"):
        return "has more items than are allowed"
    if problem.validator == "required":
        return message.replace("is a required property", "is required, but missing")
    return message.removeprefix(repr(problem.instance)).strip()


def _names(unknown: list[str]) -> str:
    return ", ".join(shorten(name, MAX_NAME) for name in unknown[:MAX_PROBLEMS])


def _unique_items(_validator: Any, unique: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
    """jsonschema's own compares every pair of objects: two thousand of them take seconds."""
    if unique and isinstance(value, list) and len({payload.digest(item) for item in value}) < len(value):
        yield ValidationError("has items that are the same")
