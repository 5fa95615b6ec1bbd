"""What a client has of a conversation, frame by frame."""

from __future__ import annotations

import json
from typing import Any


class Transcript:
    """Applies the frames of the feed.

    A frame with a ``seq`` is a saved event: its messages are final. One without is live: its text is kept beside the
    conversation until its message is saved, or withdrawn.
    """

    def __init__(self) -> None:
        self.epoch: str | None = None
        self.seq: int | None = 0
        self.messages: dict[str, dict[str, Any]] = {}
        self.head: str | None = None
        self.live: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.calls: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, str] = {}
        self.run: str | None = None
        self.state = ""
        self.pending: list[dict[str, Any]] = []

    def place(self) -> dict[str, Any]:
        """Where to go on from: what ``subscribe`` is told."""
        place: dict[str, Any] = {"epoch": self.epoch, "after": self.seq}
        for name, text in self.live.items():
            if self.kinds[name] == "text":
                place |= {"message": name, "offset": len(text)}
        for name in [name for name, kind in self.kinds.items() if kind != "text" and name in self.live]:
            del self.live[name]  # comes again from its beginning
        return place

    def apply(self, frame: dict[str, Any]) -> None:
        seq = frame["seq"]
        if seq is not None:
            assert self.seq is None or seq > self.seq, f"event {seq} came behind {self.seq}"
        self.state = frame.get("state", "" if seq is not None else self.state)
        if "pending" in frame:
            self.pending = frame["pending"]
        for event in frame["events"]:
            self._apply(event, saved=seq is not None, frame=frame)
        if seq is not None:
            self.seq = seq

    def _apply(self, event: dict[str, Any], *, saved: bool, frame: dict[str, Any]) -> None:
        kind = event["type"]
        name = event.get("toolCallId") or event.get("messageId")
        if kind == "RUN_STARTED":
            assert self.run is None, "a run began before the last one ended"
            self.run = event["runId"]
            self.ended.pop(self.run, None)
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            run = frame["run"]
            outcome = event.get("outcome", {}).get("type", "") if kind == "RUN_FINISHED" else event["code"]
            self.ended[run], self.run = outcome, None
            assert not self.live or kind == "RUN_ERROR", "a run ended with a half answer"
        elif kind == "CUSTOM":
            self._custom(event["name"], event["value"])
        elif kind == "TOOL_CALL_RESULT":
            place = event["metadata"]
            self._commit(name=event["messageId"], role="tool", text=event["content"], place=place)
        elif kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START", "TOOL_CALL_START"):
            self._begin(event, name)
        elif kind in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS"):
            self._content(event, name)
        elif kind in ("TEXT_MESSAGE_END", "REASONING_MESSAGE_END", "TOOL_CALL_END") and "metadata" in event:
            assert saved
            self._end(event, name)

    def _begin(self, event: dict[str, Any], name: str) -> None:
        self.live[name] = ""
        self.kinds[name] = {"T": "text", "R": "reasoning"}[event["type"][0]]
        if event["type"] == "TOOL_CALL_START":
            self.kinds[name] = "call"
            self.calls[name] = {"name": event["toolCallName"], "message": event["parentMessageId"]}
        elif event.get("role") == "user":
            self.kinds[name] = "user"

    def _content(self, event: dict[str, Any], name: str) -> None:
        place = event.get("metadata", {})
        offset = place.get("offset", len(self.live[name]))
        assert offset == len(self.live[name]), f"text at {offset}, and this client has {len(self.live[name])}"
        self.live[name] += event["delta"]
        assert place.get("end", len(self.live[name])) == len(self.live[name])
        self.live[name].encode()  # no half of a character

    def _end(self, event: dict[str, Any], name: str) -> None:
        text, place = self.live.pop(name), event["metadata"]
        match self.kinds[name]:
            case "user":
                self._commit(name=name, role="user", text=text, place=place)
            case "text":
                self._commit(name=name, role="assistant", text=text, place=place)
            case "call":
                call = self.calls.pop(name)
                self._commit(name=call["message"], role="assistant", place=place)
                self.messages[call["message"]]["calls"].append((call["name"], text))

    def _commit(self, *, name: str, role: str, text: str = "", place: dict[str, Any]) -> None:
        if name not in self.messages:
            self.messages[name] = {"role": role, "text": "", "calls": [], "parent": place["parent"]}
        if text:
            assert not self.messages[name]["text"], f"the text of {name} came twice"
            self.messages[name]["text"] = text
        self.head = name

    def _custom(self, name: str, value: Any) -> None:
        match name:
            case "criogen.discarded":
                for part in [p for p in self.live if p.split(":")[0] == value["messageId"]]:
                    del self.live[part]
            case "criogen.rewound":
                self.head = value["messageId"]
            case "criogen.empty_message":
                self._commit(name=value["messageId"], role="assistant", place=value)
            case "criogen.run_failed":
                self.ended[value["runId"]] = value["code"]

    @property
    def said(self) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """The conversation: role, text and calls of each message, oldest first."""
        lines, name = [], self.head
        while name is not None:
            message = self.messages[name]
            lines.append((message["role"], message["text"], message["calls"]))
            name = message["parent"]
        return lines[::-1]


def stored(messages: list[dict[str, Any]]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """``messages()`` in the same form."""
    return [_line(message) for message in messages]


def _line(message: dict[str, Any]) -> tuple[str, str, list[tuple[str, str]]]:
    content = message["content"]
    if message["role"] == "tool":
        result = content[0]["tool_result"]["content"]
        return "tool", result if isinstance(result, str) else _json(result), []
    text = "".join(block.get("text", "") for block in content)
    calls = [block["tool_call"] for block in content if "tool_call" in block]
    return message["role"], text, [(call["name"], _json(call["arguments"])) for call in calls]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
