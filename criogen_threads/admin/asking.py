"""Who asked for something: the run, and the runs above it that handed the task down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from criogen_threads.admin.text import visible
from criogen_threads.models import Message

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    from criogen_threads.admin.story import Story
    from criogen_threads.models import Run, Thread

DEEPEST = 20
"""Runs of a chain that are shown."""


@dataclass(frozen=True, slots=True)
class Asker:
    """One step of the chain: somebody, or an agent, asked an agent. ``text`` is what a person said."""

    who: SafeString
    agent: SafeString
    number: int
    text: SafeString | None = None


def asker(run: Run, person: Any) -> SafeString:
    """Who a run is named after: a user, a visitor without an account, or the site's own code.

    Args:
        person: The user, where there is one.
    """
    if person:
        return visible(person.get_username())
    return visible(_("a visitor") if run.visitor else _("the site"))


def askers(thread: Thread, run: Run, story: Story | None) -> list[Asker]:
    """The chain that led to a run, from the person down to it.

    Args:
        story: The conversation on the page; None for those who may not read it, who see no text either.
    """
    chain = [run]
    while chain[0].parent_run is not None and len(chain) < DEEPEST:
        chain.insert(0, chain[0].parent_run)
    first, *others = chain
    steps = [Asker(asker(first, first.actor or thread.owner), visible(first.agent), first.number, _said(story))]
    for above, below in zip(chain, others, strict=False):
        steps.append(Asker(visible(above.agent), visible(below.agent), below.number))
    return steps


def _said(story: Story | None) -> SafeString | None:
    """The last thing that the user said."""
    for entry in reversed(story.entries if story else []):
        if entry.role == Message.Role.USER:
            return next((part.text for part in entry.parts if part.kind == "text"), None)
    return None
