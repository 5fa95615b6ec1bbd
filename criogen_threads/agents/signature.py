"""What a tool's function says about itself: its parameters, its context, its docstring."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents.context import ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ARGUMENTS = re.compile(r"^(args|arguments|parameters):\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters, the one that takes the ToolContext set apart."""

    tool: str
    function: Callable[..., Any]
    context: inspect.Parameter | None
    parameters: tuple[inspect.Parameter, ...]

    @property
    def takes_any_keyword(self) -> bool:
        return any(parameter.kind is parameter.VAR_KEYWORD for parameter in self.parameters)

    def bind(self, context: ToolContext, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of one call."""
        if self.context is None:
            return (), arguments
        if self.context.kind is inspect.Parameter.POSITIONAL_ONLY:
            return (context,), arguments
        return (), {**arguments, self.context.name: context}


def read_signature(tool: str, function: Callable[..., Any]) -> Signature:
    """Find the parameters that the model fills in.

    The context goes to the parameter annotated ``ToolContext``; without one, to a parameter named ``context``
    that has no annotation. What a ``functools.partial`` fills in by name is not the model's either.

    Raises:
        ImproperlyConfigured: The function has no readable signature, or asks for two contexts.
    """
    try:
        parameters = list(_signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"Tool {tool!r}: the parameters of its function cannot be read.") from error
    filled_in = function.keywords if isinstance(function, functools.partial) else {}
    parameters = [parameter for parameter in parameters if parameter.name not in filled_in]
    context = _find_context(tool, function, parameters)
    rest = tuple(parameter for parameter in parameters if parameter is not context)
    return Signature(tool, function, context, rest)


def resolve_annotation(tool: str, function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type that a parameter is annotated with, forward references resolved.

    Raises:
        ImproperlyConfigured: There is no annotation, or it names something that cannot be found.
    """
    if parameter.annotation is parameter.empty:
        raise ImproperlyConfigured(
            f"Tool {tool!r}: its parameter {parameter.name!r} has no type annotation, so that the model "
            f"cannot be told what to send."
        )
    try:
        return _evaluate(function, parameter.annotation)
    except Exception as error:
        raise ImproperlyConfigured(
            f"Tool {tool!r}: the annotation of {parameter.name!r} cannot be resolved ({error}): "
            f"define or import the type in the function's module, and not only for type checking."
        ) from error


def first_paragraph(function: Callable[..., Any]) -> str:
    """The docstring up to its first blank line, on one line; "" without a docstring."""
    paragraph = _docstring(function).partition("\n\n")[0]
    first_line = paragraph.partition("\n")[0]
    return "" if _ARGUMENTS.match(first_line) else " ".join(paragraph.split())


def described_arguments(function: Callable[..., Any]) -> dict[str, str]:
    """What the docstring's ``Args:`` section (Google style) says of each parameter."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    entry_indent = -1
    for line in _arguments_section(_docstring(function).splitlines()):
        indent = len(line) - len(line.lstrip())
        entry_indent = indent if entry_indent < 0 else entry_indent
        entry = _ENTRY.match(line.strip()) if indent == entry_indent else None
        if entry:
            current = found.setdefault(entry[1], [])
        current.append(entry[2] if entry else line)
    return {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}


def _arguments_section(lines: list[str]) -> Iterable[str]:
    inside = False
    for line in lines:
        if not inside:
            inside = bool(_ARGUMENTS.match(line))
        elif line and not line[0].isspace():
            return
        elif line.strip():
            yield line


def _docstring(function: Callable[..., Any]) -> str:
    target = _target(function)
    return inspect.getdoc(target if inspect.isfunction(target) else function) or ""


def _find_context(
    tool: str, function: Callable[..., Any], parameters: list[inspect.Parameter]
) -> inspect.Parameter | None:
    annotated = [parameter for parameter in parameters if _is_context(function, parameter.annotation)]
    if len(annotated) > 1:
        raise ImproperlyConfigured(f"Tool {tool!r}: two of its parameters take the ToolContext.")
    if annotated:
        return annotated[0]
    named = (p for p in parameters if p.name == "context" and p.annotation is p.empty)
    return next(named, None)


def _is_context(function: Callable[..., Any], annotation: Any) -> bool:
    """Also where ToolContext is imported for type checking only, as linters like to have it."""
    written = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", "")
    if written.partition("|")[0].strip(" '\"").rpartition(".")[2] == "ToolContext":
        return True
    try:
        resolved = _evaluate(function, annotation)
    except Exception:  # a type that cannot be resolved is reported with its parameter, if it is the model's
        return False
    return resolved is ToolContext or ToolContext in get_args(resolved)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def _evaluate(function: Callable[..., Any], annotation: Any) -> Any:
    target = _target(function)

    def holder() -> None: ...

    holder.__annotations__ = {"value": annotation}
    closure = dict(zip(target.__code__.co_freevars, _cells(target), strict=True))
    return get_type_hints(holder, target.__globals__, closure, include_extras=True)["value"]


def _cells(function: Any) -> list[Any]:
    return [_cell_value(cell) for cell in function.__closure__ or ()]


def _cell_value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name of the enclosing function that has no value yet
        return None


def _target(function: Callable[..., Any]) -> Any:
    """The plain function below partials, decorators, methods and callable objects."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    target = inspect.unwrap(target)
    target = getattr(target, "__func__", target)
    return target if inspect.isfunction(target) else getattr(type(target), "__call__", target)  # noqa: B004
