"""The small model: what a thread promises, in a few values and without a database."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.machine.world import APPROVED, HANGING, ON_CRASH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GO_ON, CANCEL, DIE, ZOMBIE = "go on", "cancel", "die", "zombie"
WAYS = (GO_ON, CANCEL, DIE, ZOMBIE)
"""What becomes of a run whose tools hang."""


@dataclass
class Plan:
    """What one message of the user makes the model do: its rounds of tool calls, and where it is down."""

    id: int
    rounds: list[list[str]]
    fails: int | None = None

    @property
    def text(self) -> str:
        return json.dumps({"id": self.id, "rounds": self.rounds, "fails": self.fails})

    @classmethod
    def of(cls, messages: Sequence[Mapping[str, Any]]) -> Plan:
        said = next(message for message in reversed(messages) if message["role"] == "user")
        return cls(**json.loads(said["content"][0]["text"]))


@dataclass
class Thread:
    """Where a thread stands.

    ``status`` is new, completed, failed, suspended, due, interrupted or forked. ``round`` counts the answers to
    the last message; ``open`` holds the calls of the last one that have no result: awaiting an answer, approved,
    rejected, unknown (it had started), or new (nothing of it counts).
    """

    status: str = "new"
    plan: Plan = field(default_factory=lambda: Plan(0, []))
    round: int = 0
    open: dict[int, str] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)

    def kind(self, index: int) -> str:
        return self.plan.rounds[self.round - 1][index]

    @property
    def is_free(self) -> bool:
        """Whether a new turn may begin."""
        return self.status in ("new", "completed", "failed", "forked")

    @property
    def awaiting(self) -> list[int]:
        return [index for index, status in self.open.items() if status == "awaiting"]

    def say(self, plan: Plan, state: dict[str, Any]) -> None:
        """A new turn begins."""
        self.plan, self.round, self.open, self.state = plan, 0, {}, {**self.state, **state}

    def advance(self, well: bool, way: str) -> None:
        """The run goes on until it rests."""
        while True:
            for index, status in self.open.items():
                self.open[index] = self._planned(self.kind(index), status)
            running = [index for index, status in self.open.items() if status in ("ready", "approved")]
            if way != GO_ON and (hanging := [index for index in running if self.kind(index) in HANGING]):
                return self._stop(way, hanging)
            self.open = dict.fromkeys(self.awaiting, "awaiting")
            if self.open:
                self.status = "suspended"
                return None
            if self.plan.fails == self.round and not well:
                self.status = "failed"
                return None
            if self.round == len(self.plan.rounds):
                self.status = "completed"
                self.round += 1
                return None
            self.open = dict.fromkeys(range(len(self.plan.rounds[self.round])), "new")
            self.round += 1

    def _planned(self, kind: str, status: str) -> str:
        if status == "new":
            return "awaiting" if kind in APPROVED else "ready"
        if status == "unknown":
            return {"ask": "awaiting", "rerun": "ready", "report": "reported"}[ON_CRASH[kind]]
        return status

    def _stop(self, way: str, hanging: list[int]) -> None:
        self.open = {**dict.fromkeys(self.awaiting, "awaiting"), **dict.fromkeys(hanging, "unknown")}
        if way == CANCEL:
            self.fail()
        else:
            self.status = "interrupted"

    def fail(self) -> None:
        """The run ends; nobody can answer any more."""
        self.status = "failed"
        self.open = {index: "new" if status == "awaiting" else status for index, status in self.open.items()}

    def rewind(self, status: str, messages: Sequence[Mapping[str, Any]], state: dict[str, Any]) -> None:
        """The thread stands where a checkpoint stood, whatever came after it."""
        self.plan, self.state = Plan.of(messages), state
        said = max(position for position, message in enumerate(messages) if message["role"] == "user")
        turn = messages[said:]
        answers = [message for message in turn if message["role"] == "assistant"]
        self.round = len(answers)
        asked = (
            [block["tool_call"]["id"] for block in answers[-1]["content"] if "tool_call" in block] if answers else []
        )
        settled = {block["tool_result"]["id"] for m in turn for block in m["content"] if "tool_result" in block}
        waits = "awaiting" if status == "suspended" else "new"
        self.open = {index: waits for index, call_id in enumerate(asked) if call_id not in settled}
        self.status = {"suspended": "suspended", "completed": "completed"}.get(status, "forked")
