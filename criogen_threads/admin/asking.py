"""Who asked for something: the run, and the runs above it that handed the task down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from django.db.models import prefetch_related_objects
from django.utils.translation import gettext as _

from criogen_threads.admin.text import visible
from criogen_threads.engine import transcript, trees
from criogen_threads.models import Event, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from django.utils.safestring import SafeString

    from criogen_threads.admin.story import Story
    from criogen_threads.models import Run, Thread, ToolCall

DEEPEST = 20
"""Runs of a chain that are shown."""

CUT = 2_000
"""Characters of what was asked that are shown."""


@dataclass(frozen=True, slots=True)
class Asker:
    """One step of the chain: somebody, or an agent, asked an agent for a run. ``text`` is what they said."""

    who: SafeString
    agent: SafeString
    run: Run
    text: SafeString | None = None


def asker(run: Run, person: Any) -> SafeString:
    """Who a run is named after: a user, a visitor without an account, or the site's own code.

    Args:
        person: The user, where there is one.
    """
    if person:
        return visible(person.get_username())
    return visible(_("a visitor") if run.visitor else _("the site"))


def name_answerers(calls: Iterable[ToolCall]) -> None:
    """Have every call that was answered know by whom, in words, as ``answered_by``."""
    answered = [call for call in calls if call.decided_at]
    prefetch_related_objects(answered, "decided_by")
    told = _told_of(call for call in answered if call.decided_by is None)
    for call in answered:
        name = call.decided_by.get_username() if call.decided_by else _without_account(told.get(call.pk, {}))
        call.answered_by = name  # type: ignore[attr-defined]


def _without_account(told: dict[str, Any]) -> str:
    """Who answered, as the event says it: a visitor, a user who is gone, or the site's own code."""
    if told.get("visitor") is True:
        return _("a visitor")
    return _("somebody") if "decided_by" in told else _("the site")


def _told_of(calls: Iterable[ToolCall]) -> dict[UUID, dict[str, Any]]:
    """What the events say about the answers to these calls."""
    asked = {call.pk: call.thread_id for call in calls}
    if not asked:
        return {}
    found = Event.objects.filter(thread__in=set(asked.values()), type="approval_decided", tool_call__in=asked)
    return {event.tool_call_id: event.details or {} for event in found if event.tool_call_id}


def askers(thread: Thread, run: Run, story: Story | None) -> list[Asker]:
    """The chain that led to a run, from the person down to it.

    Args:
        story: The conversation on the page; None for those who may not read it, who see no text either.
    """
    chain = [link.run for link in trees.chains([run])[run.pk]][-DEEPEST:]
    said, first = _begun_with(chain) if story else {}, chain[0]
    steps = [Asker(asker(first, first.actor or thread.owner), visible(first.agent), first, said.get(first.pk))]
    for above, below in pairwise(chain):
        steps.append(Asker(visible(above.agent), visible(below.agent), below, said.get(below.pk)))
    if story and steps[-1].text is None:  # it goes on from what was said in another run
        steps[-1] = replace(steps[-1], text=_last_said(story))
    return steps


def _begun_with(chain: Sequence[Run]) -> dict[UUID | None, SafeString]:
    """What each run began with."""
    threads = {run.thread_id for run in chain}
    said = Message.objects.filter(thread__in=threads, run__in=[run.pk for run in chain], role=Message.Role.USER)
    return {
        message.run_id: visible(transcript.text_of(message.content)[:CUT], prose=True)
        for message in said.order_by("-position")
        if not message.is_beside
    }


def _last_said(story: Story) -> SafeString | None:
    """The last thing that the user said."""
    for entry in reversed(story.entries):
        if entry.role == Message.Role.USER:
            return next((part.text for part in entry.parts if part.kind == "text"), None)
    return None
