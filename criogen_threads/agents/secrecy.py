"""What a tool's ``secrets`` hide of its result: a secret argument that the result repeats."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from criogen_threads.agents.tool import Tool

MASK = "[hidden]"
"""What stands in place of a secret."""

SHORTEST = 4
"""Characters that a secret has at least to be looked for: a shorter one is found in every other word."""


def hide_secrets(block: dict[str, Any], arguments: Any, tool: Tool | None) -> None:
    """Note in a result what people are shown of it, where that is not what the model reads."""
    if tool is not None and tool.secrets:
        result = block["tool_result"]
        shown = without_secrets(result["content"], arguments, tool.secrets)
        if shown != result["content"]:
            result["shown"] = shown


def shown_result(result: Mapping[str, Any]) -> Any:
    """The content of a result as people are shown it."""
    return result.get("shown", result["content"])


def without_secrets(content: Any, arguments: Any, secrets: Collection[str]) -> Any:
    """A result, text or JSON, with the values of secret arguments replaced wherever it repeats them as they are."""
    if not isinstance(arguments, dict):
        return content
    values = {text for name in secrets for text in _texts(arguments.get(name)) if len(text) >= SHORTEST}
    if not values:
        return content
    longest_first = sorted(values, key=len, reverse=True)
    return _replaced(content, re.compile("|".join(map(re.escape, longest_first))))


def _texts(value: Any) -> Iterator[str]:
    """The texts and numbers of a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _replaced(value: Any, secret: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return secret.sub(MASK, value)
    if isinstance(value, list):
        return [_replaced(item, secret) for item in value]
    if isinstance(value, dict):
        return {_replaced(name, secret): _replaced(item, secret) for name, item in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool) and secret.fullmatch(str(value)):
        return MASK
    return value
