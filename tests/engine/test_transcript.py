"""Deciding: on values alone, always exactly one action that fits the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from criogen_threads.engine import transcript
from criogen_threads.engine.transcript import (
    AskModel,
    Fail,
    Finish,
    HandOver,
    OpenCall,
    Plan,
    RunTools,
    Settle,
    Suspend,
    next_action,
    result_block,
)  # fmt: skip
from criogen_threads.models import ToolCall

STATUSES = ["new", "ready", "awaiting_approval", "running", "waiting", "rejected", "expired", "unknown", "void"]
OPEN = st.builds(
    OpenCall,
    index=st.integers(0, 30),
    status=st.sampled_from(STATUSES),
    on_crash=st.sampled_from(["rerun", "ask", "report"]),
    problem=st.sampled_from(["", "There is no tool of that name."]),
    reason=st.sampled_from(["", "too dear"]),
    hands_over=st.booleans(),
).filter(lambda call: not call.hands_over or call.status not in ("awaiting_approval", "running", "waiting"))
CALLS = st.lists(OPEN, max_size=6, unique_by=lambda call: call.index)
TAILS = st.sampled_from(["user", "assistant", "tool"])


def _named(action: Any) -> list[OpenCall]:
    """The calls that an action is about."""
    if isinstance(action, Settle):
        return [outcome.call for outcome in action.outcomes]
    return list(action.calls) if isinstance(action, Plan | RunTools | HandOver) else []


@given(TAILS, CALLS, st.sampled_from(["", "the run took 25 steps"]))
def test_there_is_always_one_action_and_it_names_only_calls_that_are_open(
    tail: str, calls: list[OpenCall], over_limit: str
) -> None:
    action = next_action(tail, calls, over_limit=over_limit)
    assert isinstance(action, Plan | Settle | RunTools | HandOver | Suspend | AskModel | Finish | Fail)
    named = _named(action)
    assert all(call in calls for call in named)
    assert len(named) == len(set(named))
    if isinstance(action, Plan | Settle | RunTools):
        assert named


@given(TAILS, CALLS, st.sampled_from(["", "the run took 25 steps"]))
def test_while_a_call_is_open_the_model_is_not_asked_and_nothing_is_finished(
    tail: str, calls: list[OpenCall], over_limit: str
) -> None:
    action = next_action(tail, calls, over_limit=over_limit)
    if calls:
        assert not isinstance(action, AskModel | Finish | Fail)
    elif tail == "assistant":
        assert isinstance(action, Finish)
    else:
        assert action == (Fail("limit_reached", over_limit) if over_limit else AskModel())


@given(TAILS, CALLS)
def test_f23_what_a_person_has_not_allowed_never_runs(tail: str, calls: list[OpenCall]) -> None:
    action = next_action(tail, calls)
    if isinstance(action, RunTools):
        for call in action.calls:
            assert call.status in ("ready", "running", "unknown")
            assert not call.problem
            assert call.status != "unknown" or call.on_crash == "rerun"
    if isinstance(action, Suspend):
        waiting = [call for call in calls if not call.hands_over]
        assert waiting
        assert {call.status for call in waiting} <= {"awaiting_approval", "waiting"}
        assert not any(call.problem for call in calls if call.status != "waiting")


@given(TAILS, CALLS)
def test_b17_what_waits_for_another_agent_is_left_alone_and_a_hand_over_comes_last(
    tail: str, calls: list[OpenCall]
) -> None:
    action = next_action(tail, calls)
    assert not any(call.status == "waiting" for call in _named(action))
    if isinstance(action, HandOver):
        assert all(call.hands_over for call in calls)
    if isinstance(action, RunTools):
        assert not any(call.hands_over for call in action.calls)


def test_b17_what_is_asked_of_one_agent_waits_behind_what_that_waits_for() -> None:
    first, second = OpenCall(0, "waiting"), OpenCall(1, "ready", row=uuid4(), behind=True)
    assert next_action("assistant", [first, second]) == Suspend((second.row,))
    assert next_action("assistant", [first, second, third := OpenCall(2, "ready")]) == RunTools([third])


@given(TAILS, CALLS)
def test_f24_acting_again_and_again_deals_with_every_call_and_comes_to_rest(tail: str, calls: list[OpenCall]) -> None:
    open_calls = list(calls)
    for _ in range(3 * len(calls) + 1):
        action = next_action(tail, open_calls)
        named = _named(action)
        if isinstance(action, Plan):  # each gets a row: ready, or waiting for a person
            planned = [replace(call, status="ready") for call in named]
            open_calls = [call for call in open_calls if call not in named] + planned
        elif named:
            open_calls = [call for call in open_calls if call not in named]
            tail = "tool"
        else:
            break
    assert not _named(next_action(tail, open_calls))
    assert all(call.hands_over or call.status in ("awaiting_approval", "waiting") for call in open_calls)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (OpenCall(0, "new"), Plan),
        (OpenCall(0, "void"), Plan),
        (OpenCall(0, "unknown", "ask"), Plan),
        (OpenCall(0, "unknown", "rerun"), RunTools),
        (OpenCall(0, "ready"), RunTools),
        (OpenCall(0, "running"), RunTools),
        (OpenCall(0, "awaiting_approval"), Suspend),
    ],
)
def test_what_becomes_of_a_call_by_its_status(call: OpenCall, expected: type[Any]) -> None:
    assert isinstance(next_action("assistant", [call]), expected)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (OpenCall(0, "rejected"), transcript.REJECTED),
        (OpenCall(0, "rejected", reason="too dear"), f"{transcript.REJECTED} Reason: too dear"),
        (OpenCall(0, "expired"), transcript.EXPIRED),
        (OpenCall(0, "unknown", "report"), transcript.MAY_HAVE_RUN),
        (OpenCall(0, "unknown", "rerun", problem="gone"), transcript.MAY_HAVE_RUN),
        (OpenCall(0, "ready", problem="no such tool"), "no such tool"),
    ],
)
def test_what_the_model_reads_of_a_call_that_did_not_run(call: OpenCall, text: str) -> None:
    action = next_action("assistant", [call])
    assert isinstance(action, Settle)
    assert [outcome.text for outcome in action.outcomes] == [text]


def test_f15_f17_a_call_that_is_left_behind_says_whether_it_may_have_taken_effect() -> None:
    assert transcript.closing_text(started=True) == transcript.MAY_HAVE_RUN
    assert transcript.closing_text(started=False) == transcript.NOT_RUN
    assert "may have taken effect" in transcript.MAY_HAVE_RUN


def test_every_status_of_an_open_call_is_one_that_rows_can_have() -> None:
    assert set(STATUSES) - {transcript.NEW} < set(ToolCall.Status.values)


def test_blocks() -> None:
    content = [
        {"text": "a"},
        {"reasoning": "hm"},
        {"tool_call": {"id": "1", "name": "x", "arguments": {}}},
        {"text": "b"},
    ]
    assert transcript.text_of(content) == "ab"
    assert transcript.tool_calls(content) == [{"id": "1", "name": "x", "arguments": {}}]
    assert result_block("1", "x", {"n": 1}, is_error=False) == {
        "tool_result": {"id": "1", "name": "x", "content": {"n": 1}, "is_error": False}
    }
