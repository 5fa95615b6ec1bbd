"""The history as a tree: checkpoints newest first, with a drawn gutter; and what two of them differ in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.http import Http404

from criogen_threads.admin.story import Entry, story_of
from criogen_threads.admin.text import pretty, visible
from criogen_threads.engine.journal import branches
from criogen_threads.models import Checkpoint, Message, Run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from django.utils.safestring import SafeString

    from criogen_threads.models import Thread
    from criogen_threads.redaction import Audience

PAGE = 100
MOST_LANES = 12
"""Branches that are drawn beside each other; further ones share the last lane."""

LANE, HEIGHT = 16, 44
"""Pixels: the width of a lane, the height of a row."""

MOST_COMPARED = 200
"""Messages of each side that a comparison shows."""


@dataclass(frozen=True, slots=True)
class Line:
    x1: int
    y1: int
    x2: int
    y2: int
    on_history: bool

    @property
    def to_end(self) -> bool:
        """Whether it goes down to the row's end, wherever that is: a row whose text wraps is higher."""
        return self.y2 == HEIGHT


@dataclass
class Row:
    """A checkpoint with its piece of the gutter."""

    checkpoint: Checkpoint
    run: Run | None
    x: int
    on_history: bool
    is_head: bool
    fork_of: int | None
    left_behind: bool
    lines: list[Line] = field(default_factory=list)

    y = HEIGHT // 2


@dataclass(frozen=True, slots=True)
class Tree:
    """A page of the tree; ``before`` continues it."""

    rows: list[Row]
    width: int
    height: int
    before: int | None


def page(thread: Thread, before: int | None) -> Tree:
    """The checkpoints of a thread below a version, newest first."""
    all_of_it = Checkpoint.objects.filter(thread=thread.pk).defer("state").order_by("-version")
    found = list((all_of_it if before is None else all_of_it.filter(version__lt=before))[: PAGE + 1])
    shown = found[:PAGE]
    if not shown:
        return Tree([], LANE, HEIGHT, None)
    runs = Run.objects.in_bulk({c.run_id for c in shown if c.run_id})
    versions = dict(Checkpoint.objects.filter(pk__in={c.parent_id for c in shown}).values_list("pk", "version"))
    history = _history(thread, shown[-1].version)
    rows = [_row(c, runs, versions, history, thread) for c in shown]
    width = _draw(rows, _from_above(thread, shown), history)
    return Tree(rows, width, HEIGHT, shown[-1].version if len(found) > PAGE else None)


def _history(thread: Thread, lowest: int) -> set[UUID]:
    """The checkpoints of the history down to a version."""
    head = thread.head
    if head is None:
        return set()
    return set(branches.ids(Checkpoint, head.pk, max(1, head.version - lowest + 1)))


def _from_above(thread: Thread, shown: list[Checkpoint]) -> list[UUID]:
    """Those of this page that a newer page's checkpoints build on, newest first."""
    newer = Checkpoint.objects.filter(thread=thread.pk, version__gt=shown[0].version)
    wanted = set(newer.filter(parent__in=[c.pk for c in shown]).values_list("parent", flat=True).distinct())
    return [c.pk for c in shown if c.pk in wanted]


def _row(
    checkpoint: Checkpoint, runs: dict[UUID, Run], versions: dict[UUID, int], history: set[UUID], thread: Thread
) -> Row:
    parent = checkpoint.parent_id
    return Row(
        checkpoint,
        runs.get(checkpoint.run_id) if checkpoint.run_id else None,
        0,
        checkpoint.pk in history,
        checkpoint.pk == thread.head_id,
        versions.get(parent) if checkpoint.source == Checkpoint.Source.FORK and parent else None,
        False,
    )


def _draw(rows: list[Row], from_above: Iterable[UUID], history: set[UUID]) -> int:
    """Give every row its lane and its lines; returns the width of the gutter."""
    lanes: list[UUID | None] = list(from_above)
    widest = max(1, len(lanes))
    for row in rows:
        before = list(lanes)
        mine = [index for index, wanted in enumerate(lanes) if wanted == row.checkpoint.pk]
        row.left_behind = not mine and not row.is_head
        lane = mine[0] if mine else _free(lanes)
        for other in mine[1:]:
            lanes[other] = None
        lanes[lane] = row.checkpoint.parent_id
        row.x = _x(lane)
        row.lines = [*_above(before, lane, row, history), *_below(lanes, lane, before, row, history)]
        while lanes and lanes[-1] is None:
            lanes.pop()
        widest = max(widest, len(before), lane + 1)
    return LANE * min(widest, MOST_LANES)


def _free(lanes: list[UUID | None]) -> int:
    if None in lanes:
        return lanes.index(None)
    lanes.append(None)
    return len(lanes) - 1


def _above(before: list[UUID | None], lane: int, row: Row, history: set[UUID]) -> Iterable[Line]:
    """From the row above down to the middle: lanes that end here bend to this row's, others go straight on."""
    for index, wanted in enumerate(before):
        if wanted == row.checkpoint.pk:
            straight = index == lane
            yield Line(_x(index), 0, _x(lane), row.y, straight and row.on_history)
        elif wanted is not None:
            yield Line(_x(index), 0, _x(index), row.y, wanted in history)


def _below(
    lanes: list[UUID | None], lane: int, before: list[UUID | None], row: Row, history: set[UUID]
) -> Iterable[Line]:
    for index, wanted in enumerate(lanes):
        if wanted is not None and (index == lane or index < len(before)):
            on_history = row.on_history if index == lane else wanted in history
            yield Line(_x(index), row.y, _x(index), HEIGHT, on_history)


def _x(lane: int) -> int:
    return LANE // 2 + LANE * min(lane, MOST_LANES - 1)


# Two checkpoints -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """What one checkpoint has that the other has not."""

    checkpoint: Checkpoint
    entries: list[Entry]
    more: int
    state: SafeString


@dataclass(frozen=True, slots=True)
class Differences:
    old: Side
    new: Side
    common: int
    same_state: bool


def checkpoint(thread: Thread, pk: UUID) -> Checkpoint:
    """A checkpoint of this thread; any other is not there."""
    found = Checkpoint.objects.filter(thread=thread.pk, pk=pk).select_related("run", "message").first()
    if found is None:
        raise Http404
    return found


def differences(thread: Thread, old: Checkpoint, new: Checkpoint, to: Audience) -> Differences:
    """What was said on the one branch and not on the other, and both states."""
    tails = (old.message_id, new.message_id)
    own = [beyond(Message, tails[0], tails[1]), beyond(Message, tails[1], tails[0])]
    common = len(branches.ids(Message, tails[0])) - own[0]
    states = [state_at(each) for each in (old, new)]
    sides = [_side(thread, each, count, state, to) for each, count, state in zip((old, new), own, states, strict=True)]
    return Differences(sides[0], sides[1], common, states[0] == states[1])


def beyond(model: type[branches.M], tail: UUID | None, other: UUID | None) -> int:
    """How many rows of a branch, its newest ones, are not on another one."""
    shared = set(branches.ids(model, other))
    return sum(pk not in shared for pk in branches.ids(model, tail))


def _side(thread: Thread, at: Checkpoint, own: int, state: dict[str, Any], to: Audience) -> Side:
    entries = story_of(thread, branches.messages(at.message_id, min(own, MOST_COMPARED)), to)
    return Side(at, entries, max(0, own - MOST_COMPARED), visible(pretty(state)))


def state_at(at: Checkpoint) -> dict[str, Any]:
    """The thread's state as it was at a checkpoint."""
    if at.state is not None:
        return dict(at.state)
    if at.state_at_id is None:
        return {}
    found = Checkpoint.objects.filter(pk=at.state_at_id).first()
    return dict(found.state or {}) if found else {}
