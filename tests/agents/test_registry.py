from __future__ import annotations

from types import ModuleType

import pytest
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import Agent, all_agents, get_agent, register, registry, unregister
from criogen_threads.errors import AgentNotFoundError


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    monkeypatch.setattr(registry, "_agents", {})
    monkeypatch.setattr(registry, "_conflicts", set())


def an_agent(name: str = "support") -> Agent:
    return Agent(name, model="test:model")


def load(module: str) -> Agent:
    """Run a module that registers an agent, as autodiscovery and autoreload do."""
    loaded = ModuleType(module)
    source = "from criogen_threads.agents import *\nsupport = register(Agent('support', model='test:model'))"
    exec(source, vars(loaded))
    return loaded.support


def test_a_registered_agent_is_found_by_its_name():
    agent = an_agent()
    assert register(agent) is agent
    assert get_agent("support") is agent


def test_all_agents_are_listed_by_name():
    second, first = register(an_agent("b")), register(an_agent("a"))
    assert all_agents() == [first, second]


@pytest.mark.parametrize("name", ["nobody", "x" * 1_000_000])
def test_p41_an_unknown_name_has_a_code(name):
    with pytest.raises(AgentNotFoundError, match="No agent is registered under the name") as caught:
        get_agent(name)
    assert caught.value.code == "agent_not_found"
    assert len(str(caught.value)) < 200


def test_a_module_that_is_loaded_again_replaces_its_agent():
    load("desk.agents")
    again = load("desk.agents")
    assert get_agent("support") is again
    assert list(registry.conflicts()) == []


def test_two_modules_with_one_name_are_remembered_and_the_first_counts():
    first = load("desk.agents")
    load("shop.agents")
    load("shop.agents")
    assert get_agent("support") is first
    assert [str(conflict) for conflict in registry.conflicts()] == [
        "The agent 'support' is registered by desk.agents and by shop.agents."
    ]


def test_one_agent_may_be_registered_twice():
    agent = load("desk.agents")
    assert register(agent) is agent
    assert list(registry.conflicts()) == []
    assert get_agent("support") is agent


def test_an_agent_can_be_forgotten():
    load("desk.agents")
    load("shop.agents")
    unregister("support")
    unregister("support")
    assert all_agents() == []
    assert list(registry.conflicts()) == []


def test_only_agents_are_registered():
    with pytest.raises(ImproperlyConfigured, match="not a str"):
        register("support")
