"""What to do next, decided on values alone: no database, no clock, no agent.

A first run, a retry after a crash, the continuation after an approval and a run from a rewound checkpoint are
the same loop started on different rows; this module is where it decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from criogen_threads.backends.base import Block

OnCrash = Literal["rerun", "ask", "report"]
NEW = "new"  # a call that the model asked for and that has no row in this run


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call whose result is not on the branch.

    ``status`` is that of its newest row in this run, or NEW. ``problem`` says why it cannot run at all (unknown
    tool, arguments that do not fit): text for the model.
    """

    index: int
    status: str
    on_crash: OnCrash = "rerun"
    problem: str = ""
    reason: str = ""
    row: UUID | None = None
    behind: bool = False  # it asks an agent whose run in this conversation waits for people
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result that is written without running anything."""

    call: OpenCall
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Give these calls a row: ready, or waiting for a person."""

    calls: Sequence[OpenCall]


@dataclass(frozen=True, slots=True)
class Settle:
    """Write these results."""

    outcomes: Sequence[Outcome]


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls, side by side."""

    calls: Sequence[OpenCall]


@dataclass(frozen=True, slots=True)
class Suspend:
    """Only people are waited for: free the thread. ``behind`` are calls that are ready and come after that."""

    behind: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class HandOver:
    """Let another agent go on; every other call of the answer has its result."""

    calls: Sequence[OpenCall]


@dataclass(frozen=True, slots=True)
class AskModel:
    """Send the conversation to the model."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The agent has answered."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The run ends here; ``retry()`` can go on."""

    code: str
    message: str = ""


Action: TypeAlias = Plan | Settle | RunTools | Suspend | HandOver | AskModel | Finish | Fail

_RUNNABLE = ("ready", "running", "unknown")


def next_action(tail: str, open_calls: Iterable[OpenCall], *, over_limit: str = "") -> Action:
    """What a run does next.

    Args:
        tail: Role of the last message on the branch.
        open_calls: The calls of the last answer that have no result there.
        over_limit: Which limit of the agent is reached, in words; "" while none is.

    Returns:
        The one action that these rows call for.
    """
    calls = list(open_calls)
    if unplanned := [call for call in calls if _needs_row(call)]:
        return Plan(unplanned)
    if outcomes := [Outcome(call, text) for call in calls if (text := _outcome(call))]:
        return Settle(outcomes)
    ready = [call for call in calls if call.status in _RUNNABLE]
    if runnable := [call for call in ready if not (call.behind or call.hands_over)]:
        return RunTools(runnable)
    if any(not call.hands_over for call in calls):
        return Suspend(tuple(call.row for call in ready if call.row))
    if calls:
        return HandOver(calls)
    if tail == "assistant":
        return Finish()
    return Fail("limit_reached", over_limit) if over_limit else AskModel()


def _needs_row(call: OpenCall) -> bool:
    if call.status == "unknown" and not call.problem:
        return call.on_crash == "ask"
    return call.status in (NEW, "void")


def _outcome(call: OpenCall) -> str:
    """The result of a call that will not run; "" for one that may."""
    if call.status == "rejected":
        return REJECTED + (f" Reason: {call.reason}" if call.reason else "")
    if call.status == "expired":
        return EXPIRED
    if call.status == "unknown" and (call.problem or call.on_crash == "report"):
        return MAY_HAVE_RUN
    return "" if call.status == "waiting" else call.problem  # whom it asked is not asked again, but is waited for


# What the model reads -----------------------------------------------------------------------------------------

REJECTED = "A person rejected this call; it was not run."
EXPIRED = "Nobody approved this call in time; it was not run."
MAY_HAVE_RUN = "This call was interrupted while it ran. It may have taken effect: find out before you ask for it again."
NOT_RUN = "This call was not run: the turn ended before it."
TOOL_FAILED = "The tool failed. The failure was logged for the people who run this site."


def closing_text(started: bool) -> str:
    """The result that closes a call which a new turn leaves behind."""
    return MAY_HAVE_RUN if started else NOT_RUN


# Blocks -----------------------------------------------------------------------------------------------------


def text_block(text: str) -> Block:
    return {"text": text}


def result_block(call_id: str, name: str, content: Any, *, is_error: bool) -> Block:
    return {"tool_result": {"id": call_id, "name": name, "content": content, "is_error": is_error}}


def tool_calls(content: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tool calls of an answer, in order: ``{"id", "name", "arguments"}``."""
    return [block["tool_call"] for block in content if "tool_call" in block]


def text_of(content: Iterable[Mapping[str, Any]]) -> str:
    """The text of a message, its blocks joined."""
    return "".join(block["text"] for block in content if "text" in block)
