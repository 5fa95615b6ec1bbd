"""A conversation as people read it: messages, with each tool call and its result in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from criogen_threads import redaction
from criogen_threads.admin.asking import name_answerers
from criogen_threads.admin.text import SHORT, Argument, arguments, difference, formatted, pretty, visible
from criogen_threads.engine.journal import branches
from criogen_threads.models import Message, Run, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from django.utils.safestring import SafeString

    from criogen_threads.models import Thread
    from criogen_threads.redaction import Audience

PAGE = 50
"""Messages on a page."""


@dataclass
class Part:
    """A piece of a message: text, or one tool call with what came of it."""

    kind: str
    text: SafeString | None = None
    html: SafeString | None = None
    more: int = 0
    name: SafeString | None = None
    arguments: list[Argument] = field(default_factory=list)
    difference: list[Argument] = field(default_factory=list)
    result: SafeString | None = None
    is_error: bool = False
    hidden: bool = False
    call: ToolCall | None = None


@dataclass
class Entry:
    """One message. ``key`` names it on the page, for what refreshes it there."""

    key: UUID
    role: str
    label: str
    who: str
    when: datetime
    position: int
    run: Run | None
    parts: list[Part]


@dataclass(frozen=True, slots=True)
class Story:
    """A page of a conversation; ``earlier`` is the message that the page before it ends with."""

    entries: list[Entry]
    earlier: UUID | None


def story(thread: Thread, tail: UUID | None, to: Audience, *, limit: int = PAGE, short: int | None = SHORT) -> Story:
    """The conversation that ends with a message: its last ``limit`` messages, texts cut at ``short`` characters."""
    messages = branches.messages(tail, limit + 1)
    earlier = messages[0].pk if len(messages) > limit else None
    shown = messages[-limit:]
    while earlier and len(shown) > 1 and shown[0].role == Message.Role.TOOL:
        earlier, shown = shown[0].pk, shown[1:]  # a result stands with its call
    return Story(story_of(thread, shown, to, short), earlier)


def story_of(thread: Thread, messages: Sequence[Message], to: Audience, short: int | None = SHORT) -> list[Entry]:
    """These messages, as they follow each other."""
    runs = Run.objects.select_related("actor").in_bulk({m.run_id for m in messages if m.run_id})
    calls = _newest_calls(thread, messages)
    entries: list[Entry] = []
    open_calls: list[Part] = []
    for message in messages:
        if message.role == Message.Role.TOOL:
            left = list(_results(message, open_calls, to, short))
            if left:
                entries.append(_entry(message, left, runs))
            continue
        parts = list(_parts(message, calls, to, short))
        open_calls = [part for part in parts if part.call is not None]
        if parts:
            entries.append(_entry(message, parts, runs))
    return entries


def _newest_calls(thread: Thread, messages: Iterable[Message]) -> dict[tuple[UUID, int], ToolCall]:
    """The newest try of each call that these messages ask for, in whichever run."""
    asking = [message.pk for message in messages if message.role == Message.Role.ASSISTANT]
    found = ToolCall.objects.filter(thread=thread.pk, message__in=asking).select_related("decided_by", "child_run")
    newest = {(call.message_id, call.index): call for call in found.order_by("pk")}
    name_answerers(newest.values())
    return newest


def _entry(message: Message, parts: list[Part], runs: dict[UUID, Run]) -> Entry:
    run = runs.get(message.run_id) if message.run_id else None
    who = message.agent
    if message.role == Message.Role.USER:
        who = run.actor.get_username() if run and run.actor else ""
    label = message.get_role_display()
    return Entry(message.pk, message.role, label, who, message.created_at, message.position, run, parts)


def _parts(
    message: Message, calls: dict[tuple[UUID, int], ToolCall], to: Audience, short: int | None
) -> Iterator[Part]:
    index = 0
    for block in message.content:
        call = None
        if "tool_call" in block:
            call = calls.get((message.pk, index))
            index += 1
        edited = redaction.masked(call.edited_arguments, to.secrets(message.agent, call.name)) if call else None
        for shown in redaction.content([block], message.agent, to):
            yield _part(shown, call, short, markdown=message.role == Message.Role.ASSISTANT, edited=edited)


def _part(
    block: dict[str, Any], call: ToolCall | None, short: int | None, *, markdown: bool, edited: Any = None
) -> Part:
    if "tool_call" in block:
        return _call_part(block["tool_call"], call, edited)
    if "text" in block:
        return text_part(block["text"], short, markdown=markdown)
    if "reasoning" in block:
        part = text_part(_plain(block["reasoning"]), short)
        part.kind = "reasoning"
        return part
    kind = next(iter(block))
    if kind in ("image", "file"):
        media = str((block[kind] or {}).get("media_type", ""))
        return Part("media", visible(_("a file (%(type)s)") % {"type": media or kind}))
    return Part("media", visible(kind))


def _call_part(asked: dict[str, Any], call: ToolCall | None, edited: Any) -> Part:
    part = Part("tool", name=visible(asked["name"]), hidden=bool(asked.get("hidden")), call=call)
    if isinstance(edited, dict) and not part.hidden:
        part.difference = difference(asked["arguments"], edited)
    else:
        part.arguments = arguments(asked["arguments"])
    return part


def _results(message: Message, calls: list[Part], to: Audience, short: int | None) -> Iterator[Part]:
    """Put results where their calls stand; those whose call is not on this page are left."""
    for shown in redaction.content(message.content, message.agent, to):
        result = shown.get("tool_result")
        if result is None:
            yield _part(shown, None, short, markdown=False)
            continue
        part = _asked(calls, message, result["id"])
        alone = part is None
        if part is None:
            part = Part("tool", name=visible(result["name"]), hidden=bool(result.get("hidden")))
        if not part.hidden:
            text = text_part(_plain(result["content"]), short)
            part.result, part.more = text.text, text.more
        part.is_error = bool(result.get("is_error"))
        if alone:
            yield part


def _asked(calls: list[Part], message: Message, call_id: str) -> Part | None:
    """The call that this result belongs to: by its row, as a provider's ids repeat; else, on a branch whose calls
    were made again elsewhere, by the provider's id."""
    by_row = [part for part in calls if part.call is not None and part.call.result_id == message.pk]
    by_id = [part for part in calls if part.call is not None and part.call.call_id == call_id]
    found = next(iter([*by_row, *by_id]), None)
    if found is not None:
        calls.remove(found)
    return found


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else pretty(value)


def text_part(text: str, short: int | None, *, markdown: bool = False) -> Part:
    """A text, cut where it is long; an answer's Markdown as sanitised HTML."""
    cut = text if short is None else text[:short]
    more = len(text) - len(cut)
    html = formatted(text) if markdown and not more else None
    return Part("text", visible(cut, prose=True) if html is None else None, html, more)
