"""What runs cost, with those that they asked for. Never stored: the sum of what each run counted itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads.models import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from uuid import UUID

AGENTS = "agents"  # in a run's usage: told apart by agent, where more than one worked in it


def below(alias: str, run_ids: Iterable[UUID]) -> Iterator[tuple[UUID, Run]]:
    """Every run that these asked for, directly or not, each with the one of these that it belongs to."""
    owners = {run_id: run_id for run_id in run_ids}
    while owners:
        found = Run.objects.using(alias).filter(parent_run__in=owners).only("id", "parent_run", "agent", "usage")
        deeper = {}
        for run in found:
            deeper[run.pk] = owners[run.parent_run_id]  # type: ignore[index]  # they were asked for by these
            yield deeper[run.pk], run
        owners = deeper


def tokens_below(alias: str, run_id: UUID) -> int:
    """The tokens of every run that this one asked for."""
    return sum(run.tokens for _, run in below(alias, [run_id]))


def totals(alias: str, runs: Iterable[Run]) -> dict[UUID, dict[str, Any]]:
    """The usage of each run and those it asked for together, under "agents" told apart by agent.

    A run in which one agent worked, and which asked for nothing, is as it stands in its row.
    """
    by_agent = {run.pk: _by_agent(run) for run in runs}
    found = {run.pk: run.usage for run in runs}
    asked = {owner: None for owner, run in below(alias, by_agent) if _add(by_agent[owner], _by_agent(run))}
    for run_id in asked:
        sums: dict[str, int] = {}
        for usage in by_agent[run_id].values():
            add(sums, usage)
        found[run_id] = {**sums, AGENTS: by_agent[run_id]}
    return found


def _by_agent(run: Run) -> dict[str, dict[str, int]]:
    told_apart: Mapping[str, Any] = run.usage.get(AGENTS) or {run.agent: run.usage}
    return {agent: dict(usage) for agent, usage in told_apart.items()}


def _add(to: dict[str, dict[str, int]], more: Mapping[str, Mapping[str, int]]) -> bool:
    for agent, usage in more.items():
        add(to.setdefault(agent, {}), usage)
    return True


def add(to: dict[str, Any], more: Mapping[str, int]) -> None:
    """Add one usage to another."""
    for name, value in more.items():
        to[name] = to.get(name, 0) + value
