"""A conversation as AG-UI messages, and whether a client's own is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads.engine import reads, transcript
from criogen_threads.streaming.agui import json_text
from criogen_threads.streaming.parts import ARGUMENTS, part_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from criogen_threads.streaming.showing import Viewer

View = dict[str, Any]


def conversation(thread_id: UUID, viewer: Viewer, until: str = "") -> list[View]:
    """The messages of a thread as this person is shown them, in AG-UI's form. Reads the database.

    Args:
        until: A run: no further than the user's message that began it.
    """
    waiting: list[tuple[str, str]] = []  # the provider's id of each call without a result, and ours
    shown = []
    messages = reads.messages_of(thread_id)
    first = next((i for i, m in enumerate(messages) if m["run_id"] == until and m["role"] == "user"), len(messages))
    for message in messages[: first + 1]:
        if message["role"] == "assistant":
            waiting = [
                (call["id"], part_id(message["id"], ARGUMENTS, index))
                for index, call in enumerate(transcript.tool_calls(message["content"]))
            ]
        shown.append(_message(message, waiting, viewer))
    return [each for each in shown if each is not None]


def _message(message: View, waiting: list[tuple[str, str]], viewer: Viewer) -> View | None:
    content, own = message["content"], {"id": message["id"], "role": message["role"]}
    if message["role"] == "user":
        return {**own, "content": transcript.text_of(content)}
    if message["role"] == "tool":
        return _result(own, content[0]["tool_result"], message["agent"], waiting, viewer)
    calls = [
        _call(part_id(message["id"], ARGUMENTS, index), call, message["agent"], viewer)
        for index, call in enumerate(transcript.tool_calls(content))
        if viewer.sees(message["agent"], call["name"])
    ]
    text = transcript.text_of(content)
    if not text and not calls:
        return None
    return {**own, **({"content": text} if text else {}), **({"toolCalls": calls} if calls else {})}


def _call(name: str, call: View, agent: str, viewer: Viewer) -> View:
    arguments = json_text(viewer.arguments(agent, call["name"], call["arguments"]))
    return {"id": name, "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _result(own: View, result: View, agent: str, waiting: list[tuple[str, str]], viewer: Viewer) -> View | None:
    answered = next((each for each in waiting if each[0] == result["id"]), None)
    if answered is not None:
        waiting.remove(answered)
    if answered is None or not viewer.sees(agent, result["name"]):
        return None
    content = json_text(viewer.result(agent, result))
    return {**own, "toolCallId": answered[1], "content": content}


def is_same(ours: Iterable[View], theirs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a client's history says what ours says; ids, and roles that we do not keep, do not count."""
    return [_gist(each) for each in ours] == [
        _gist(each) for each in theirs if each.get("role") in ("user", "assistant", "tool")
    ]


def _gist(message: Mapping[str, Any]) -> tuple[Any, ...]:
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("toolCalls") or ()]
    return message["role"], text_of(message.get("content")), calls


def text_of(content: Any) -> str:
    """The text of a message of AG-UI: plain, or the text of its parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    return content or ""
