"""An agent: its options, its tools, and how it reaches the rooms above."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import Agent, ToolContext, tool
from criogen_threads.backends.base import ToolDefinition
from tests.agents.contexts import a_context


@tool
def lookup(order: str) -> str:
    """Look up an order."""


@tool(name="a-first")
def by_name(name: str) -> str: ...


def an_agent(name: str = "support", **options: Any) -> Agent:
    return Agent(name, **{"model": "test:model", **options})


def test_a_plain_agent_has_the_documented_defaults():
    agent = an_agent()
    assert (agent.name, agent.instructions, agent.description) == ("support", "", "")
    assert (agent.max_steps, agent.max_tokens, agent.max_seconds) == (25, None, None)
    assert agent.tools == {}
    assert agent.settings == {}


def test_every_option_is_kept():
    agent = an_agent(max_steps=3, max_tokens=9, max_seconds=1.5, settings={"temperature": 0}, description="Helps.")
    assert (agent.max_steps, agent.max_tokens, agent.max_seconds) == (3, 9, 1.5)
    assert agent.settings == {"temperature": 0}
    assert agent.description == "Helps."


def test_the_model_is_shown_the_tools_in_the_order_given():
    definitions = an_agent(tools=[lookup, by_name]).definitions()
    assert definitions == [
        ToolDefinition("lookup", "Look up an order.", lookup.parameters),
        ToolDefinition("a-first", "", by_name.parameters),
    ]


@pytest.mark.parametrize("name", ["a", "desk.support-2_x", "x" * 100])
def test_a_name(name):
    assert an_agent(name).name == name


@pytest.mark.parametrize("name", ["", "x" * 101, "a b", "a/b", "a\n", "größe", None])
def test_other_names_are_refused(name):
    with pytest.raises(ImproperlyConfigured, match="1 to 100 letters"):
        an_agent(name)


async def instruct_async(context: ToolContext) -> str: ...


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model": None}, "needs a model"),
        ({"model": ""}, "needs a model"),
        ({"instructions": 3}, "instructions must be"),
        ({"instructions": instruct_async}, "instructions must be"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1"),
        ({"max_tokens": 0}, "max_tokens must be"),
        ({"max_seconds": 0}, "max_seconds must be a number of seconds"),
        (
            {"tools": [lookup, tool(name="lookup")(lookup.function)]},
            "two of its tools have the name 'lookup'",
        ),
        ({"tools": [lookup.function]}, "missing its @tool"),
    ],
)
def test_what_is_not_possible_is_refused_by_name(options, reason):
    with pytest.raises(ImproperlyConfigured, match=f"Agent 'support': .*{reason}"):
        an_agent(**options)


def test_instructions_are_text_or_a_function_of_the_context():
    assert an_agent(instructions="Be kind.").instructions_for(a_context()) == "Be kind."
    by_locale = an_agent(instructions=lambda context: f"Answer in {context.locale}.")
    assert by_locale.instructions_for(a_context()) == "Answer in de."


def test_instructions_that_are_not_text_are_an_error():
    with pytest.raises(TypeError, match="'support' are a NoneType, not text"):
        an_agent(instructions=lambda context: None).instructions_for(a_context())


def test_the_model_is_resolved_at_its_first_use_and_once(monkeypatch):
    asked: list[Any] = []
    monkeypatch.setattr("criogen_threads.agents.agent.resolve", lambda model: asked.append(model) or object())
    agent = an_agent()
    assert asked == []
    assert agent.backend is agent.backend
    assert asked == ["test:model"]


@pytest.fixture
def threads(monkeypatch):
    """The room above, recording what it is asked."""
    module = ModuleType("criogen_threads.threads")
    module.ThreadHandle = lambda key, **options: SimpleNamespace(key=key, **options)

    async def run_once(*arguments: Any) -> Any:
        return ("async", *arguments)

    module.run_once = run_once
    module.run_once_sync = lambda *arguments: ("sync", *arguments)
    monkeypatch.setitem(sys.modules, "criogen_threads.threads", module)


@pytest.mark.usefixtures("threads")
def test_p2_a_thread_is_a_handle_of_key_agent_and_actor():
    agent = an_agent()
    assert agent.thread("user-42", actor="Ada") == SimpleNamespace(key="user-42", agent=agent, actor="Ada")
    assert agent.thread("user-42").actor is None


@pytest.mark.usefixtures("threads")
def test_p7_a_turn_without_a_thread_takes_any_name_as_state():
    agent = an_agent()
    asked = asyncio.run(agent.run("Hi", actor="Ada", text="state too"))
    assert asked == ("async", agent, "Hi", "Ada", {"text": "state too"})
    assert agent.run_sync("Hi", plan="pro") == ("sync", agent, "Hi", None, {"plan": "pro"})


def test_importing_agents_imports_no_models():
    script = (
        "import sys; import criogen_threads.agents;"
        " print([m for m in sys.modules if m.startswith(('criogen_threads.models', 'django.contrib'))])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "[]\n"
