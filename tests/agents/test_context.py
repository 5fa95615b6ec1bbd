from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tests.agents.contexts import a_context


def test_it_cannot_be_changed():
    context = a_context()
    with pytest.raises(FrozenInstanceError):
        context.thread = "user-43"
    with pytest.raises(TypeError):
        context.state["plan"] = "free"


def test_what_a_tool_changes_in_the_state_stays_its_own():
    state = {"cart": {"items": ["a"]}}
    context = a_context(state=state)
    context.state["cart"]["items"].append("b")
    assert state == {"cart": {"items": ["a"]}}


def test_instructions_get_one_without_a_call():
    context = a_context()
    assert (context.call_id, context.idempotency_key, context.try_number) == (None, "", 1)
