"""Tools: functions that a model may call."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, overload

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import options as check
from criogen_threads.agents.data_schema import SchemaParameters
from criogen_threads.agents.schema import TypedParameters
from criogen_threads.agents.signature import first_paragraph, read_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from criogen_threads.agents.context import ToolContext
    from criogen_threads.agents.options import Approval, OnCrash, Seconds, ToolOptions, Visible
    from criogen_threads.agents.schema import Parameters
    from criogen_threads.agents.signature import Signature

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ToolError(Exception):
    """Raised by a tool for something that the model should read: the text is given to the model."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Tool:
    """A function that a model may call, and how it is run. It cannot be changed once made.

    Args:
        function: Sync or async. The parameter annotated ``ToolContext`` (or one without annotation named
            ``context``) gets the context; the model fills in the others. It returns text or plain JSON.
        name: 1 to 64 letters, digits, ``_`` and ``-``. By default the function's name.
        description: For the model. By default the first paragraph of the function's docstring.
        parameters: A JSON schema, where the function's own type hints do not say what it takes. The arguments
            then reach the function by name, exactly as the model sent them.
        approval: Who must agree before it runs: None, "owner", "staff", or a function of the context and the
            arguments that returns None, False, "owner", "staff" or True (staff).
        atomic: Run inside the transaction that saves its result, exactly once. Synchronous tools only.
        on_crash: What is done with a call that had started when its process died: "rerun" (the default),
            "ask" a person (the default with an approval) or "report" to the model that it may have taken
            effect.
        timeout: Seconds (or a timedelta) until the model is told that it took too long.
        retries: How often it is run again when it raises anything but ToolError. Default 0.
        expires_in: Seconds (or a timedelta) until an approval that nobody answered counts as rejected.
        read_only: It changes nothing, so that a conversation may be edited past it.
        visible: Who sees its calls: "all", only its "name", or "staff".
        secrets: Parameters whose values are hidden from everybody who is shown the call.

    Raises:
        ImproperlyConfigured: A value or a combination is impossible, or the function cannot be described to a
            model. The text names the tool.
    """

    function: Callable[..., Any]
    name: str
    description: str
    is_async: bool
    approval: Approval | None
    atomic: bool
    on_crash: OnCrash
    timeout: float | None
    retries: int
    expires_in: float | None
    read_only: bool
    visible: Visible
    secrets: tuple[str, ...]
    _signature: Signature
    _parameters: Parameters

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        approval: Approval | None = None,
        atomic: bool = False,
        on_crash: OnCrash | None = None,
        timeout: Seconds | None = None,
        retries: int = 0,
        expires_in: Seconds | None = None,
        read_only: bool = False,
        visible: Visible = "all",
        secrets: Sequence[str] = (),
    ) -> None:
        name = _checked_name(function, name)
        owner = f"Tool {name!r}"
        is_async = _is_async(owner, function)
        signature = read_signature(name, function)
        declared = TypedParameters(signature) if parameters is None else SchemaParameters(signature, parameters)
        check.refuse_combinations(
            owner,
            {"approval": approval, "atomic": atomic, "on_crash": on_crash, "timeout": timeout,
             "expires_in": expires_in},
            is_async=is_async,
        )  # fmt: skip
        on_crash = on_crash or ("rerun" if approval is None or atomic else "ask")
        put = partial(object.__setattr__, self)  # the class is frozen
        put("function", function)
        put("name", name)
        put("description", first_paragraph(function) if description is None else description)
        put("is_async", is_async)
        put("approval", check.checked_approval(owner, approval))
        put("atomic", check.one_of(owner, "atomic", atomic, (True, False)))
        put("on_crash", check.one_of(owner, "on_crash", on_crash, ("rerun", "ask", "report")))
        put("timeout", check.seconds(owner, "timeout", timeout))
        put("retries", check.count(owner, "retries", retries, least=0))
        put("expires_in", check.seconds(owner, "expires_in", expires_in))
        put("read_only", check.one_of(owner, "read_only", read_only, (True, False)))
        put("visible", check.one_of(owner, "visible", visible, ("all", "name", "staff")))
        put("secrets", check.checked_secrets(owner, secrets, declared.names))
        put("_signature", signature)
        put("_parameters", declared)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema that the model is shown; the same on every start."""
        return self._parameters.schema

    @property
    def is_plain(self) -> bool:
        """Whether judging a call runs nothing of the site's code."""
        return self._parameters.plain and not callable(self.approval)

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Check what the model, or a person who edits a call, gave.

        Returns:
            The arguments by name, converted to the types of the function's hints, defaults filled in; for a
            tool made of a schema a copy of them as they are.

        Raises:
            InvalidArguments: What is wrong, for the model.
        """
        return self._parameters.validate(arguments)

    def needs_approval(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        """Who must agree to this call: "", "owner" or "staff".

        Args:
            arguments: As ``validate`` returned them.

        Raises:
            Exception: Whatever the approval function raises, or TypeError where it returns anything else; the
                call must not run then.
        """
        answer: Any = self.approval
        if callable(answer):
            answer = answer(context, **arguments)
        if answer is None or answer is False:
            return ""
        if answer is True:
            return "staff"
        if isinstance(answer, str) and answer in ("owner", "staff"):
            return answer
        raise TypeError(f"the approval function of the tool {self.name!r} returned {answer!r}")

    def invoke(self, context: ToolContext, arguments: dict[str, Any]) -> Any:
        """Run a synchronous tool with arguments that ``validate`` returned."""
        positional, named = self._signature.bind(context, arguments)
        return self.function(*positional, **named)

    async def ainvoke(self, context: ToolContext, arguments: dict[str, Any]) -> Any:
        """Run an async tool with arguments that ``validate`` returned."""
        positional, named = self._signature.bind(context, arguments)
        return await self.function(*positional, **named)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it were not a tool."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: ``@tool``, or ``@tool(approval="staff", …)`` with ``Tool``'s options."""
    if function is None:
        return lambda decorated: Tool(decorated, **options)
    return Tool(function, **options)


def _checked_name(function: Any, name: str | None) -> str:
    if not callable(function):
        raise ImproperlyConfigured(f"A tool is made of a function, not of {function!r}.")
    chosen = getattr(function, "__name__", "") if name is None else name
    if not isinstance(chosen, str) or not _NAME.fullmatch(chosen):
        raise ImproperlyConfigured(
            f"Tool {chosen!r} (of {function!r}): a name has 1 to 64 letters, digits, '_' and '-'."
        )
    return chosen


def _is_async(owner: str, function: Any) -> bool:
    functions = (function, getattr(function, "func", None), type(function).__call__)
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in functions):
        raise ImproperlyConfigured(f"{owner}: a tool returns its result, it cannot yield it.")
    return any(iscoroutinefunction(each) for each in functions)
