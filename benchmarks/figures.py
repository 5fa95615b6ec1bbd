"""From what was measured to the figures that are printed, and the budgets they are held against."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.contestant import Taken

Figures: TypeAlias = dict[str, dict[str, float]]
"""By figure, then by contestant."""

EDGE = 20  # turns that count as the start and as the end
OURS, FLOOR, PIPED, FULL, DELTA, POOLED = (
    "criogen_threads", "floor", "floor, piped", "LangGraph", "LangGraph, delta", "delta, async, pool",
)  # fmt: skip
PEERS = (FULL, DELTA, POOLED)


@dataclass(frozen=True, slots=True)
class Budget:
    """A figure that may be at most so much."""

    figure: str
    most: float
    contestant: str = OURS


def budgets(turns: int) -> list[Budget]:
    """The budgets; what is said of 200 turns is asked of 200 turns only."""
    always = [
        Budget("saves / floor, start", 2.5),
        Budget("saves / floor, end", 2.5),
        Budget("growth of saves / the floor's", 1.15),
        Budget("read, µs a message", 15),
        Budget("history(20), ms", 5),
        Budget("statements, plain turn", 18),
        Budget("commits, plain turn", 2),
        Budget("commits a turn", 4),
        Budget("longest work on the loop, ms", 5),
        Budget("saves / best LangGraph, worst 20 turns", 1),
        Budget("turn / best LangGraph, worst 20 turns", 1),
    ]
    if turns != 200:
        return always
    return [*always, Budget("messages(), ms", 15), Budget("tables and indexes, kB", 2000)]


def p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def of_turns(taken: dict[str, list[Taken]], cold: dict[str, list[Taken]]) -> Figures:
    """Figures of the turns: milliseconds, ratios and counts.

    Args:
        cold: The first turns of the process, in another conversation.
    """
    figures: Figures = {}
    for name, turns in taken.items():
        _own_figures(figures, name, turns)
        new = median(turn.whole * 1000 for turn in cold[name][:EDGE])
        put(figures, "whole turn, new process, median ms", name, new)
    growth = figures["growth of saves"]
    put(figures, "growth of saves / the floor's", OURS, growth[OURS] / growth[FLOOR])
    for floor in (FLOOR, PIPED):
        for what, part in (("start", slice(EDGE)), ("end", slice(-EDGE, None))):
            for name in taken.keys() - {floor}:
                put(figures, f"saves / {floor}, {what}", name, _ratio(taken[name][part], taken[floor][part], "saves"))
    if peers := [taken[peer] for peer in PEERS if peer in taken]:
        put(figures, "saves / best LangGraph, worst 20 turns", OURS, _worst(taken[OURS], peers, "saves"))
        put(figures, "turn / best LangGraph, worst 20 turns", OURS, _worst(taken[OURS], peers, "whole"))
    return figures


def _own_figures(figures: Figures, name: str, turns: Sequence[Taken]) -> None:
    parts = {"start": turns[:EDGE], "end": turns[-EDGE:]}
    for what, part in parts.items():
        saves = [turn.saves * 1000 for turn in part]
        put(figures, f"saves, {what}, median ms", name, median(saves))
        put(figures, f"saves, {what}, p95 ms", name, p95(saves))
        put(figures, f"saves, {what}, processor ms here", name, median(turn.work * 1000 for turn in part))
    for what, part in parts.items():
        put(figures, f"whole turn, {what}, median ms", name, median(turn.whole * 1000 for turn in part))
    put(figures, "reading in a turn, end, median ms", name, median(turn.reads * 1000 for turn in parts["end"]))
    put(figures, "growth of saves", name, _ratio(parts["end"], parts["start"], "saves"))
    put(figures, "growth of a turn", name, _ratio(parts["end"], parts["start"], "whole"))
    put(figures, "commits a turn", name, max(turn.commits for turn in turns[1:]))


def put(figures: Figures, figure: str, name: str, value: float) -> None:
    """Note a figure of a contestant."""
    figures.setdefault(figure, {})[name] = value


def _ratio(some: Sequence[Taken], others: Sequence[Taken], what: str) -> float:
    return median(getattr(turn, what) for turn in some) / median(getattr(turn, what) for turn in others)


def _worst(ours: Sequence[Taken], peers: Sequence[Sequence[Taken]], what: str) -> float:
    """The worst ratio to the faster peer, over each 20 turns in a row."""
    blocks = range(0, len(ours) - EDGE + 1, EDGE)
    return max(max(_ratio(ours[at : at + EDGE], peer[at : at + EDGE], what) for peer in peers) for at in blocks)


def over_runs(runs: Sequence[Figures]) -> Figures:
    """The median of each figure over several runs."""
    return {
        figure: {name: median(run[figure][name] for run in runs) for name in names} for figure, names in runs[0].items()
    }


def table(figures: Figures, names: Sequence[str]) -> str:
    """Figures as lines, contestants as columns."""
    first = max(map(len, figures))
    width = max(map(len, names)) + 2
    lines = [" " * first + "".join(name.rjust(width) for name in names)]
    for figure, values in figures.items():
        cells = (_number(values[name]) if name in values else "" for name in names)
        lines.append(figure.ljust(first) + "".join(cell.rjust(width) for cell in cells))
    return "\n".join(line.rstrip() for line in lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or value >= 1000 else f"{value:.2f}"


def verdicts(figures: Figures, turns: int) -> list[tuple[str, bool]]:
    """Each budget in words, and whether it was met; one whose figure was not measured is left out."""
    found = []
    for budget in budgets(turns):
        value = figures.get(budget.figure, {}).get(budget.contestant)
        if value is not None:
            met = value <= budget.most
            words = f"{budget.figure}: {_number(value)}, at most {_number(budget.most)}"
            found.append((f"{'met   ' if met else 'MISSED'} {words}", met))
    return found
