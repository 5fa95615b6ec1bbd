"""Events in order, each below the one that it follows from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from criogen_threads import redaction
from criogen_threads.admin.measures import duration
from criogen_threads.admin.text import pretty, visible
from criogen_threads.engine import reads
from criogen_threads.engine.chains import format_chain

if TYPE_CHECKING:
    from uuid import UUID

    from django.utils.safestring import SafeString

    from criogen_threads.models import Run, Thread
    from criogen_threads.redaction import Audience
    from criogen_threads.threads import ThreadHandle

PAGE = 100
TURN = 500
"""Events of a turn that are shown as a tree."""

DEEPEST = 9
ENDS = frozenset({"tool_complete", "tool_error", "agent_complete", "run_complete"})
"""Events that end what the event above them began."""

BRIEF = ("tool_name", "action", "decided_by", "rewound_by", "by", "code")
"""Details that say in a word what an event is about."""

ROLES = ("decided_by", "rewound_by")
"""Details that name a user by the primary key."""

CUT = 2_000
"""Characters of a detail that the page shows; the story has the whole text."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One event; ``depth`` is how far below the root of its chain it stands on this page.

    ``brief`` says which tool, or who, in a word; ``lasted`` how long what it ends took.
    """

    id: str
    thread: str
    seq: int
    type: str
    agent: SafeString
    when: datetime
    depth: int
    brief: SafeString
    lasted: str
    details: list[tuple[SafeString, SafeString, int]]


@dataclass(frozen=True, slots=True)
class Happenings:
    """A page of events; ``after`` continues it."""

    rows: list[Happening]
    after: int | None


def page(thread: Thread, after: int, to: Audience) -> Happenings:
    """The events of a thread after a number."""
    views = reads.events_after(thread.pk, after, PAGE + 1)
    more = len(views) > PAGE
    names = _names(views)
    above: dict[str, tuple[int, int]] = {}  # depth and moment of what other events hang below
    rows = []
    for view in views[:PAGE]:
        depth, began = above.get(view["parent_id"], (-1, 0))
        above[view["id"]] = (min(depth + 1, DEEPEST), view["created_at_ms"])
        shown = redaction.event(view, to)
        if shown is not None:
            rows.append(_happening(shown, above[view["id"]][0], began, names))
    return Happenings(rows, views[PAGE - 1]["seq"] if more else None)


def of_turn(run: Run, to: Audience) -> Happenings:
    """What happened in a run and in those that it asked for, as one tree: each event below the one that it follows
    from, what an asked agent did below the call that asked it."""
    views = reads.events_of_turn(run, TURN + 1)
    names, below = _names(views), _below(views)
    rows: list[Happening] = []
    left = [(view, 0, 0) for view in reversed(below.get(None, []))]
    while left:
        view, depth, began = left.pop()
        shown = redaction.event(view, to)
        if shown is None:
            continue  # and what is below it
        rows.append(_happening(shown, min(depth, DEEPEST), began, names))
        left += [(each, depth + 1, view["created_at_ms"]) for each in reversed(below.get(view["id"], []))]
    return Happenings(rows[:TURN], TURN if len(views) > TURN else None)


def _below(views: list[dict[str, Any]]) -> dict[str | None, list[dict[str, Any]]]:
    """The events by the one that they hang below: first what an asked agent did, then in their order."""
    here = {view["id"]: view for view in views}
    found: dict[str | None, list[dict[str, Any]]] = {}
    for view in views:
        found.setdefault(view["parent_id"] if view["parent_id"] in here else None, []).append(view)
    for parent, events in found.items():
        own = here[parent]["thread_id"] if parent else views[0]["thread_id"]
        events.sort(key=lambda view: (view["thread_id"] == own, view["seq"]))
    return found


def _names(views: list[dict[str, Any]]) -> dict[str, str]:
    """The names of the users that these events name by their primary keys."""
    users = get_user_model()
    keys = {view["details"][role] for view in views for role in ROLES if role in view["details"]}
    found = users._default_manager.filter(pk__in=keys) if keys else ()
    return {str(user.pk): user.get_username() for user in found}


def _named(details: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Details with people's names."""
    told = {name: names.get(value, value) if name in ROLES else value for name, value in details.items()}
    return {**redaction.without(told, "visitor"), "by": _("a visitor")} if told.get("visitor") is True else told


def _happening(view: dict[str, Any], depth: int, began: int, names: dict[str, str]) -> Happening:
    details = _named(view["details"], names)
    return Happening(
        id=view["id"],
        thread=view["thread_id"],
        seq=view["seq"],
        type=view["type"],
        agent=visible(view["agent"]),
        when=datetime.fromtimestamp(view["created_at_ms"] / 1000, UTC),
        depth=depth,
        brief=visible(" ".join(str(details[name]) for name in BRIEF if name in details)),
        lasted=duration((view["created_at_ms"] - began) / 1000) if view["type"] in ENDS and began else "",
        details=[(visible(name), *_cut(value)) for name, value in details.items()],
    )


def _cut(value: Any) -> tuple[SafeString, int]:
    text = value if isinstance(value, str) else pretty(value)
    return visible(text[:CUT]), max(0, len(text) - CUT)


def chain(handle: ThreadHandle, thread: Thread, event: UUID) -> SafeString:
    """The chain that leads to an event, as text."""
    views = reads.event_chain(thread.key, event)
    return visible(format_chain(redaction.events(views, redaction.audience(handle.actor, thread))))
