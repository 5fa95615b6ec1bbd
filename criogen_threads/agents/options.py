"""The options of a tool, and the refusal of values and combinations that mean nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured

Approver: TypeAlias = Literal["owner", "staff"]
Approval: TypeAlias = Approver | Callable[..., bool | Approver | None]
OnCrash: TypeAlias = Literal["rerun", "ask", "report"]
Visible: TypeAlias = Literal["all", "name", "staff"]
Seconds: TypeAlias = float | timedelta


class ToolOptions(TypedDict, total=False):
    """The options of ``Tool`` and ``@tool``; ``Tool`` says what each means."""

    name: str | None
    description: str | None
    parameters: Mapping[str, Any] | None
    approval: Approval | None
    atomic: bool
    on_crash: OnCrash | None
    timeout: Seconds | None
    retries: int
    expires_in: Seconds | None
    read_only: bool
    visible: Visible
    secrets: Sequence[str]


def one_of(owner: str, option: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """The value, if it is one of the allowed ones; ImproperlyConfigured otherwise."""
    if any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        return value
    raise ImproperlyConfigured(f"{owner}: {option} must be one of {', '.join(map(repr, allowed))}, not {value!r}.")


def seconds(owner: str, option: str, value: Any) -> float | None:
    """A time in seconds, more than 0 and finite, from a number or a timedelta; None stays None."""
    if value is None:
        return None
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
        raise ImproperlyConfigured(
            f"{owner}: {option} must be a number of seconds above 0, or a timedelta, not {value!r}."
        )
    return float(number)


def count(owner: str, option: str, value: Any, *, least: int) -> int:
    """A whole number of at least ``least``; ImproperlyConfigured otherwise."""
    if type(value) is not int or value < least:
        raise ImproperlyConfigured(f"{owner}: {option} must be a whole number of at least {least}, not {value!r}.")
    return value


def checked_approval(owner: str, approval: Approval | None) -> Approval | None:
    """None, "owner", "staff" or a synchronous function; ImproperlyConfigured otherwise."""
    if iscoroutinefunction(approval):
        raise ImproperlyConfigured(f"{owner}: the approval function must not be async.")
    if not callable(approval):
        one_of(owner, "approval", approval, (None, "owner", "staff"))
    return approval


def checked_secrets(owner: str, secrets: Any, names: Sequence[str]) -> tuple[str, ...]:
    """The names of parameters whose values are hidden; ImproperlyConfigured for any other name."""
    if isinstance(secrets, str):
        raise ImproperlyConfigured(f"{owner}: secrets must be a list of parameter names, not one text.")
    unknown = [name for name in secrets if name not in names]
    if unknown:
        raise ImproperlyConfigured(f"{owner}: secrets names {unknown[0]!r}, which is not one of its parameters.")
    return tuple(secrets)


def refuse_combinations(owner: str, options: ToolOptions, *, is_async: bool) -> None:
    """Raise ImproperlyConfigured for options that exclude each other."""
    if options["atomic"] and is_async:
        raise ImproperlyConfigured(
            f"{owner}: an atomic tool runs inside a database transaction, which async code cannot."
        )
    if options["atomic"] and options["timeout"] is not None:
        raise ImproperlyConfigured(f"{owner}: an atomic tool cannot be left behind by a timeout.")
    if options["atomic"] and options["on_crash"] is not None:
        raise ImproperlyConfigured(f"{owner}: on_crash has no meaning for an atomic tool, which leaves no trace.")
    asks = options["approval"] is not None or options["on_crash"] == "ask"
    if options["expires_in"] is not None and not asks:
        raise ImproperlyConfigured(f"{owner}: expires_in needs an approval that can expire.")
