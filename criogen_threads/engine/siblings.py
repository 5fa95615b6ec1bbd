"""Other answers: the messages that stand at the same place of a conversation, on all of its branches."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from criogen_threads.engine import reads
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.views import message_view
from criogen_threads.models import Checkpoint, Message

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from django.db.models import QuerySet

    from criogen_threads.models import Thread

BEGINNING = "beginning"
"""In place of the id of a checkpoint: where nothing was said yet."""


@dataclass(slots=True)
class Branch:
    """The checkpoints of one sibling's branch: the newest one, and the one right before the sibling was written."""

    newest: UUID | None = None
    before: UUID | str | None = None


def siblings(key: str, message_id: UUID) -> list[dict[str, Any]]:
    """What ``ThreadHandle.siblings`` gives; empty for an unknown message."""
    thread = reads.thread(key)
    message = _own(thread.pk).filter(pk=message_id).first() if thread else None
    if thread is None or message is None:
        return []
    found = [each for each in _in_order(_own(thread.pk).filter(parent=message.parent_id)) if not each.is_beside]
    where = _branch_of_each(thread.pk, message.position, [each.pk for each in found])
    branches = _checkpoints(thread.pk, where, [each.pk for each in found])
    here = where.get(thread.head.message_id) if thread.head and thread.head.message_id else None
    return [
        {
            **message_view(each),
            "current": each.pk == here,
            "checkpoint": _text(branches[each.pk].newest),
            "before": _text(branches[each.pk].before),
        }
        for each in found
    ]


def places(thread: Thread, messages: Iterable[Message]) -> dict[UUID, tuple[int, int]]:
    """For each message which of its siblings it is, from 0, and how many they are."""
    messages = list(messages)
    parents = {each.parent_id for each in messages}
    wanted = Q(parent__in=parents - {None}) | (Q(parent=None) if None in parents else Q(pk__in=[]))
    families: dict[UUID | None, list[UUID]] = defaultdict(list)
    for each in _in_order(_own(thread.pk).filter(wanted).only("parent", "metadata")):
        if not each.is_beside:
            families[each.parent_id].append(each.pk)
    return {each.pk: (families[each.parent_id].index(each.pk), len(families[each.parent_id])) for each in messages}


def _own(thread_id: UUID) -> QuerySet[Message]:
    return Message.objects.using(database()).filter(thread=thread_id)


def _in_order(messages: QuerySet[Message]) -> QuerySet[Message]:
    """In the order in which their runs came."""
    return messages.order_by("run__number", "pk")


def _branch_of_each(thread_id: UUID, position: int, roots: list[UUID]) -> dict[UUID, UUID]:
    """Which of these messages each message from there on is, or stands behind."""
    behind = _own(thread_id).filter(position__gte=position).order_by("position")
    where = {root: root for root in roots}
    for pk, parent in behind.values_list("pk", "parent"):
        if pk not in where and parent in where:
            where[pk] = where[parent]
    return where


def _checkpoints(thread_id: UUID, where: dict[UUID, UUID], roots: list[UUID]) -> dict[UUID, Branch]:
    found = {root: Branch() for root in roots}
    newest_first = Checkpoint.objects.using(database()).filter(thread=thread_id).order_by("-version")
    for pk, message, parent in newest_first.values_list("pk", "message", "parent"):
        if message not in where:
            continue
        branch = found[where[message]]
        branch.newest = branch.newest or pk
        if message in found:
            branch.before = parent or BEGINNING
    return found


def _text(value: UUID | str | None) -> str | None:
    return None if value is None else str(value)
