"""Runs with how long they took and what they used, as bars beside each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from django.utils.timezone import now
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext as _

from criogen_threads.admin.asking import asker
from criogen_threads.admin.text import visible
from criogen_threads.engine.journal import usages
from criogen_threads.engine.journal.statements import database
from criogen_threads.models import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from django.utils.safestring import SafeString

    from criogen_threads.models import Thread

PAGE = 30
DEEPEST = 5
"""How far in a run is drawn."""

COUNTED = ("input_tokens", "output_tokens")

BAR = 120
"""Width of the longest bar."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A run; widths are parts of ``BAR``, those of the tokens add up. ``depth`` is how far below the run that a
    person began it stands."""

    run: Run
    depth: int
    who: SafeString
    duration: str
    duration_width: int
    tokens: int
    input_width: int
    output_width: int
    error: SafeString | str
    shares: dict[SafeString, int] = field(default_factory=dict)
    """The tokens of each agent that worked in it."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A page of runs; ``before`` continues it."""

    rows: list[Measured]
    before: int | None


def page(thread: Thread, before: int | None) -> Runs:
    """The runs of a thread below a number, newest first."""
    runs = Run.objects.filter(thread=thread.pk).select_related("actor", "parent_run").order_by("-number")
    found = list((runs if before is None else runs.filter(number__lt=before))[: PAGE + 1])
    shown = found[:PAGE]
    longest = max((_seconds(run) or 0 for run in shown), default=0)
    largest = max((run.tokens for run in shown), default=0)
    rows = [_measured(run, depth, longest, largest) for run, depth in _as_trees(shown)]
    return Runs(rows, shown[-1].number if len(found) > PAGE else None)


def of_run(run: Run) -> Measured:
    """One run, with what those that it asked for used."""
    usage = usages.totals(database(), [run])[run.pk]
    by_agent = usage.get(usages.AGENTS) or {run.agent: usage}
    shares = {visible(agent): sum(int(used.get(name, 0)) for name in COUNTED) for agent, used in by_agent.items()}
    return replace(_measured(run, 0, 0, 0), shares=shares)


def _as_trees(runs: Sequence[Run]) -> Iterator[tuple[Run, int]]:
    """Each run with its depth, those that it began right behind it in their order; the trees newest first."""
    here = {run.pk for run in runs}
    below: dict[UUID | None, list[Run]] = {}
    for run in runs:
        below.setdefault(run.parent_run_id if run.parent_run_id in here else None, []).append(run)
    left = [(run, 0) for run in reversed(below.get(None, []))]
    while left:
        run, depth = left.pop()
        yield run, min(depth, DEEPEST)
        left += [(child, depth + 1) for child in below.get(run.pk, [])]


def _measured(run: Run, depth: int, longest: float, largest: int) -> Measured:
    seconds = _seconds(run)
    output = int(run.usage.get("output_tokens", 0))
    return Measured(
        run=run,
        depth=depth,
        who=_who(run),
        duration="" if seconds is None else duration(seconds),
        duration_width=_part(seconds or 0, longest),
        tokens=run.tokens,
        input_width=_part(run.tokens - output, largest),
        output_width=_part(output, largest),
        error=visible(gettext(str(run.error_message))) if run.error_message else "",
    )


def _who(run: Run) -> SafeString:
    """Who asked: an agent of another thread, or a person."""
    above = run.parent_run
    return asker(run, run.actor) if above is None or above.thread_id == run.thread_id else visible(above.agent)


def _part(value: float, most: float) -> int:
    return max(1, round(BAR * value / most)) if value > 0 and most > 0 else 0


def _seconds(run: Run) -> float | None:
    """How long the run took, or has taken so far; None before it starts."""
    if run.started_at is None:
        return None
    return max(0.0, ((run.completed_at or now()) - run.started_at).total_seconds())


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 1:
        return _("%(count)d ms") % {"count": round(seconds * 1000)}
    if seconds < 120:
        return _("%(count).1f s") % {"count": seconds}
    minutes = round(seconds / 60)
    return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
