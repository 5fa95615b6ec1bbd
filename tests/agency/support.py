"""What the tests of agencies share: a desk with two specialists, and looks at whole families of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads.agents import Agency, Agent, register, unregister
from criogen_threads.engine.journal.locks import family
from criogen_threads.models import Event, Run, Thread
from tests.support import Heard, call, forget_agents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from criogen_threads.agents import Tool

_made: set[str] = set()


def an_agency(name: str = "shop", **parts: Any) -> Agency:
    """A registered agency."""
    _made.add(name)
    return register(Agency(name, **parts))


def a_desk(
    desk: Sequence[Any], billing: Sequence[Any] = (), travel: Sequence[Any] = (),
    tools: Sequence[Tool] = (), **options: Any,
) -> Agency:  # fmt: skip
    """A desk that may ask a billing and a travel agent, each with its answers; billing has the tools."""
    agents = {
        "front": Agent("front", model=Heard(*desk)),
        "billing": Agent("billing", model=Heard(*billing), tools=tools, description="knows invoices"),
        "travel": Agent("travel", model=Heard(*travel), description="knows trains"),
    }
    entry, *specialists = agents.values()
    return an_agency(entry=entry, specialists=specialists, **options)


def forget_agencies() -> None:
    """Unregister what ``an_agency`` has made."""
    while _made:
        unregister(_made.pop())
    forget_agents()


def ask(agent: str, message: str = "Please.") -> dict[str, Any]:
    """The call that asks another agent."""
    return call("delegate", agent=agent, message=message)


def given(agent: Agent) -> list[list[dict[str, Any]]]:
    """The conversations that an agent's model was given."""
    model: Any = agent.backend
    return list(model.given)


def threads_of(key: str) -> list[Thread]:
    """A thread and those of its agents, the callers first."""
    first = Thread.objects.get(key=key)
    return list(Thread.objects.filter(pk__in=family("default", first.pk)).order_by("pk"))


def runs_of(key: str) -> list[Run]:
    """Every run of a family, in the order in which they came about."""
    return list(Run.objects.filter(thread__in=threads_of(key)).order_by("pk"))


def events_of(key: str) -> list[Event]:
    """Every event of a family."""
    return list(Event.objects.filter(thread__in=threads_of(key)).order_by("pk"))


def statuses(key: str) -> list[tuple[str, str]]:
    """The agent and the status of every run of a family."""
    return [(run.agent, run.status) for run in runs_of(key)]
