"""Tools whose results are no JSON, or that fail in unusual ways: the model is told, and the run completes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import Tool, ToolError
from project.desk.models import CallBack
from tests.support import an_agent, call, in_db, is_valid, results
from tests.threads.values import HALF, JSON, NOT_JSON, NUL

if TYPE_CHECKING:
    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = ["plain", "async", "atomic"]


def giving(value: Any, kind: str) -> Tool:
    """A tool that writes a row and returns the value, or raises it."""

    def book() -> Any:
        CallBack.objects.create(phone="1", when="now")
        return given()

    async def wait() -> Any:
        return given()

    def given() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return Tool(wait if kind == "async" else book, name="book", atomic=kind == "atomic")


def asking(value: Any, kind: str) -> ThreadHandle:
    return an_agent([call("book")], "Sorry", [call("book")], "Sorry", tools=[giving(value, kind)]).thread("t")


async def told(chat: ThreadHandle) -> tuple[Any, bool]:
    """What the model was told, and whether as an error."""
    reply = await chat.send("Book it")
    assert (reply.status, reply.text) == ("completed", "Sorry")
    assert is_valid(await chat.messages())
    result = reply.messages[2]["content"][0]["tool_result"]
    return result["content"], result["is_error"]


async def bookings() -> int:
    return await in_db(CallBack.objects.count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NOT_JSON)
async def test_f39_b09_a_result_that_is_not_json_is_a_tool_error(name: str, kind: str) -> None:
    chat = asking(NOT_JSON[name], kind)
    text, is_error = await told(chat)
    assert is_error
    assert text.startswith("The tool returned something that is not text or JSON: ")
    assert await bookings() == (kind == "plain")  # an atomic tool's writes go with its result
    await told(chat)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_result_that_is_too_large_is_a_tool_error(kind: str) -> None:
    text, is_error = await told(asking("x" * 2_000_000, kind))
    assert is_error
    assert "2000002 bytes" in text
    assert await bookings() == (kind == "plain")


@pytest.mark.parametrize("number", range(len(JSON)))
async def test_f38_f40_a_result_that_is_json_comes_back_as_it_was(number: int) -> None:
    chat = asking(JSON[number], "plain")
    content, is_error = await told(chat)
    assert not is_error
    assert repr(content) == repr(JSON[number])
    assert list(map(repr, results(await chat.messages()))) == [repr(JSON[number])]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Panic(BaseException):
    """As compiled libraries raise it: no Exception."""


class UnspeakableToolError(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


FAILURES: dict[str, tuple[BaseException, str]] = {
    "text": (ToolError("no such order"), "no such order"),
    "nothing": (ToolError(), "The tool failed"),
    "NUL": (ToolError(NUL), NUL),
    "half a pair": (ToolError(HALF), "half of ? a pair"),
    "2 MB": (ToolError("x" * 2_000_000), "x" * 1000),
    "no text": (ToolError(5), "5"),
    "a secret": (ValueError("password=1234"), "The tool failed"),
    "unspeakable": (Unspeakable(), "The tool failed"),
    "unspeakable tool error": (UnspeakableToolError(), "The tool failed"),
    "an exit": (SystemExit(3), "The tool failed"),
    "a panic of a compiled library": (Panic("1234"), "The tool failed"),
    "a generator's exit": (GeneratorExit(), "The tool failed"),
    "a stop": (StopIteration("over"), "The tool failed"),
    "a cancellation": (asyncio.CancelledError(), "The tool failed"),
    "too many frames": (RecursionError(), "The tool failed"),
    "a group": (ExceptionGroup("several", [ValueError("1234"), ToolError("x")]), "The tool failed"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FAILURES)
async def test_b09_a_tool_that_raises_is_told_to_the_model(name: str, kind: str) -> None:
    error, expected = FAILURES[name]
    chat = asking(error, kind)
    text, is_error = await told(chat)
    assert is_error
    assert text.startswith(expected)
    assert "1234" not in text
    assert await bookings() == (kind == "plain")
    await told(chat)
