"""Messages, keys, states and options that cannot be: refused with a code before anything is written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.threads import ThreadHandle
from tests.support import an_agent, in_db, refused
from tests.threads.rows import refused_without_a_trace, standing
from tests.threads.values import HALF, JSON, NOT_JSON, NUL, Colour, Text, nested

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)

ENTRIES: dict[str, Callable[..., Any]] = {
    "send": ThreadHandle.send,
    "submit": ThreadHandle.submit,
    "stream": lambda chat, *args, **kwargs: drained(chat.stream(*args, **kwargs)),
    "send_sync": lambda chat, *args, **kwargs: in_db(chat.send_sync, *args, **kwargs),
    "run": lambda chat, *args, **kwargs: chat.agent.run(*args, **kwargs),
}


async def drained(stream: Any) -> None:
    async for _ in stream:
        pass


async def is_usable(chat: ThreadHandle, said_before: int = 0) -> None:
    """The thread takes the next turn, and nothing else was ever said in it."""
    assert (await chat.send("Hello")).text == "Hi"
    assert len(await chat.messages()) == said_before + 2


BAD_MESSAGES = {
    "empty": ("", "invalid_message"),
    "white space": (" \n\t\u2003", "invalid_message"),
    "2 MB": ("x" * 2_000_000, "message_too_large"),
    "2 MB of bytes": ("ä" * 1_000_000, "message_too_large"),
    "half a pair": (HALF, "invalid_message"),
    "nothing": (None, "invalid_message"),
    "number": (7, "invalid_message"),
    "NaN": (math.nan, "invalid_message"),
    "bytes": (b"Hello", "invalid_message"),
    "text of a class": (Text("Hello"), "invalid_message"),
    "no blocks": ([], "invalid_message"),
    "blocks of nothing": ([{"text": ""}, {"text": " "}], "invalid_message"),
    "tuple": (({"text": "Hello"},), "invalid_message"),
    "a dict": ({"text": "Hello"}, "invalid_message"),
    "strings": (["Hello"], "invalid_message"),
    "text that is none": ([{"text": 5}], "invalid_message"),
    "unknown block": ([{"txt": "Hello"}], "invalid_message"),
    "a block of the model's": ([{"tool_call": {"id": "1", "name": "pay", "arguments": {}}}], "invalid_message"),
    "a block of a tool's": ([{"tool_result": {"id": "1", "name": "pay", "content": "paid"}}], "invalid_message"),
    "two in one": ([{"text": "Hello", "image": {"url": "https://example.org/"}}], "invalid_message"),
    "NaN in a block": ([{"text": "Hello", "provider": {"weight": math.nan}}], "invalid_message"),
    "too deep": ([{"text": "Hello", "provider": nested(200)}], "invalid_message"),
    "an image that is none": ([{"image": "https://example.org/"}], "invalid_message"),
    "an image of nothing": ([{"image": {}}], "invalid_message"),
    "an address that is none": ([{"image": {"url": 5}}], "invalid_message"),
    "a file that is not base64": ([{"file": {"data": "no base64!", "media_type": "text/plain"}}], "invalid_message"),
    "a type that is none": ([{"file": {"url": "https://example.org/", "media_type": 5}}], "invalid_message"),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
async def test_f40_a_message_that_cannot_be_is_refused(name: str) -> None:
    content, code = BAD_MESSAGES[name]
    chat = an_agent("Hi").thread("t")
    async with refused_without_a_trace(code):
        await chat.send(content)
    await is_usable(chat)


@pytest.mark.parametrize("entry", ENTRIES)
async def test_f02_every_way_in_refuses_the_same(entry: str) -> None:
    chat = an_agent("Hi").thread("t")
    for arguments, state, code in [
        (("",), {}, "invalid_message"),
        (("x" * 2_000_000,), {}, "message_too_large"),
        (("Hello",), {"colour": Colour.RED}, "invalid_state"),
    ]:
        async with refused_without_a_trace(code):
            await ENTRIES[entry](chat, *arguments, **state)
    await is_usable(chat)


async def test_f38_nul_is_stored_and_given_back() -> None:
    chat = an_agent(f"answer {NUL}").thread("t")
    reply = await chat.send(NUL, **{f"key {NUL}": [NUL]})
    assert reply.text == f"answer {NUL}"
    assert [message["content"][0]["text"] for message in await chat.messages()] == [NUL, f"answer {NUL}"]
    await chat.describe(title=NUL, metadata={NUL: NUL})
    event = await chat.create_event("note", {NUL: NUL})
    assert (await chat.get_events(type="note"))[0]["details"] == event["details"] == {NUL: NUL}


async def test_f40_a_large_message_is_stored_whole() -> None:
    text = "🙂" * 260_000
    chat = an_agent("Hi").thread("t")
    await chat.send(text)
    assert (await chat.messages())[0]["content"] == [{"text": text}]


BAD_KEYS = {
    "10,000 characters": "a" * 10_000, "201 characters": "a" * 201, "empty": "", "slash": "a/b", "dot": ".",
    "dots": "..", "space": "a b", "no-break space": "a\u00a0b", "newline": "a\n", "tab": "\ta", "NUL": "a\0b",
    "escape": "a\x1b[2J", "next line": "a\x85", "half a pair": HALF.replace(" ", ""), "none": None, "number": 5,
    "bytes": b"a",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_KEYS)
async def test_f37_a_thread_id_that_cannot_be_is_refused(name: str) -> None:
    agent = an_agent("Hi")
    async with refused_without_a_trace("invalid_thread_id"):
        agent.thread(BAD_KEYS[name])  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["a", "...", "a.b", "🙂" * 200, "שלום", "a?b#c%2F", "a" * 200, "'; DROP TABLE x"[:2]])
async def test_f37_an_unusual_thread_id_works(key: str) -> None:
    await is_usable(an_agent("Hi").thread(key))


@pytest.mark.parametrize("name", NOT_JSON)
async def test_f39_f41_a_state_that_is_not_json_is_refused(name: str) -> None:
    chat = an_agent("Hi").thread("t")
    async with refused_without_a_trace("invalid_state"):
        await chat.send("Hello", value=NOT_JSON[name])
    async with refused_without_a_trace("invalid_state"):
        await chat.send("Hello", **{HALF: 1})
    await is_usable(chat)


@pytest.mark.parametrize("number", range(len(JSON)))
async def test_f40_a_state_that_is_json_comes_back_as_it_was(number: int) -> None:
    value = JSON[number]
    seen: list[Any] = []

    def instructions(context: Any) -> str:
        seen.append(context.state["value"])
        return "Be kind."

    chat = an_agent("Hi", "Ho", instructions=instructions).thread("t")
    await chat.send("Hello", value=value)
    await chat.send("Hello again")
    assert list(map(repr, seen)) == [repr(value)] * 2


BAD_OPTIONS = {
    "client_id": ["", "a" * 201, "a\0", "a\n", HALF, 5, b"a"],
    "locale": ["d" * 36, "de\n", "de de", "d/e", 5, "\0", HALF],
    "on_busy": ["later", "", "WAIT", 5, [], HALF],
    "timeout": ["5", math.nan, -1, True, [], HALF],
}


@pytest.mark.parametrize(
    ("option", "number"), [(each, n) for each in BAD_OPTIONS for n in range(len(BAD_OPTIONS[each]))]
)
async def test_an_option_that_cannot_be_is_refused(option: str, number: int) -> None:
    chat = an_agent("Hi").thread("t")
    given = {option: BAD_OPTIONS[option][number]}
    async with refused_without_a_trace("invalid_option"):
        await chat.send("Hello", **given)
    if option != "timeout":
        async with refused_without_a_trace("invalid_option"):
            await chat.submit("Hello", **given)
    await is_usable(chat)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "5", None, math.nan])
async def test_a_number_of_rows_that_cannot_be_is_refused(limit: Any) -> None:
    chat = an_agent("Hi").thread("t")
    await chat.send("Hello")
    with refused("invalid_option"):
        await chat.history(limit)
    with refused("invalid_option"):
        await chat.get_context_window(limit)
    if limit is not None:
        with refused("invalid_option"):
            await chat.runs(limit)


async def test_any_number_of_rows_may_be_asked_for() -> None:
    chat = an_agent("Hi").thread("t")
    await chat.send("Hello")
    for limit in (2, 2**31, 2**63, 10**30):
        assert len(await chat.history(limit)) == 2
        assert len(await chat.get_context_window(limit)) == 2
        assert len(await chat.runs(limit)) == 1
    assert await chat.history(0) == await chat.get_context_window(0) == await chat.runs(0) == []


async def test_what_names_nothing_finds_nothing() -> None:
    chat = an_agent("Hi").thread("t")
    await chat.send("Hello")
    before = await in_db(standing)
    for nothing in ("", "x", "\0", HALF, 5, "00000000-0000-0000-0000-000000000000"):
        assert await chat.run(nothing) is None  # type: ignore[arg-type]
        assert await chat.cancel(nothing) is False  # type: ignore[arg-type]
        assert await chat.get_events(run=nothing) == []  # type: ignore[arg-type]
        assert await chat.get_events(type=nothing) == []  # type: ignore[arg-type]
        assert await chat.get_events(agent=nothing) == []  # type: ignore[arg-type]
        assert await chat.format_event_chain(nothing) == ""  # type: ignore[arg-type]
        with refused("checkpoint_not_found"):
            await chat.rewind(nothing)  # type: ignore[arg-type]
    assert await chat.format_event_chain({}) == ""
    assert await in_db(standing) == before
