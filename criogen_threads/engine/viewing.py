"""What a model is given of a conversation, and the summaries in it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from criogen_threads import errors, payload
from criogen_threads.agents.window import Summary, Window
from criogen_threads.backends.base import ModelAnswer, ModelRequest
from criogen_threads.conf import settings
from criogen_threads.engine import transcript
from criogen_threads.engine.journal import branches, saves
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.pools import in_database, tamed
from criogen_threads.ids import new_id
from criogen_threads.models import Message
from criogen_threads.models.message import SUMMARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from criogen_threads.engine.loop import Runner

logger = logging.getLogger("criogen_threads")

GIVEN = "given"  # in the metadata of an answer: where the model's view began, where it was not given everything


@dataclass(frozen=True, slots=True)
class View:
    """What a model is given: the conversation from a position on, after a summary of what was before."""

    messages: Sequence[Message]
    first: int = 0
    summary: Message | None = None

    def blocks(self) -> list[dict[str, Any]]:
        """As a model takes it."""
        return [{"role": message.role, "content": message.content} for message in shown(self)]

    def note(self) -> dict[str, Any] | None:
        """What the metadata of the answer says of it; None for everything."""
        if not self.first:
            return None
        return {GIVEN: {"from": self.first, "summary": str(self.summary.pk) if self.summary else None}}


def shown(view: View) -> list[Message]:
    """The messages of a view in order, the summary first."""
    kept = [message for message in view.messages if message.position >= view.first]
    return [view.summary, *kept] if view.summary else kept


async def view_for(runner: Runner) -> View:
    """What the agent's policy lets its model see now; a summary that is due is written first."""
    policy, messages = runner.agent.window, runner.conversation.messages
    if type(policy) is Window:
        return View(messages)
    turns = [message.position for message in messages if message.role == Message.Role.USER]
    if not isinstance(policy, Summary):
        first = policy.begins_at(turns)
        return View(messages, first if turns and first > turns[0] else 0)
    summary = await in_database(_newest_summary, messages)
    if policy.is_needed(turns, until(summary)):
        summary = await _written(runner, policy, summary, policy.begins_at(turns)) or summary
    first = next((position for position in turns if position > until(summary)), 0) if summary else 0
    return View(messages, first, summary)


def until(summary: Message | None) -> int:
    """The last position that a summary covers."""
    return int((summary.metadata or {})[SUMMARY]["until"]) if summary else 0


def given_for(answer: Message) -> list[Message]:
    """What the model was given for an answer, read from the rows."""
    note = (answer.metadata or {}).get(GIVEN) or {}
    summaries = Message.objects.using(database()).filter(pk__in=[pk for pk in [note.get("summary")] if pk])
    return shown(View(branches.messages(answer.parent_id), note.get("from", 0), summaries.first()))


def _newest_summary(messages: Sequence[Message]) -> Message | None:
    """The summary that the last answer on a branch was given."""
    for message in reversed(messages):
        if pk := ((message.metadata or {}).get(GIVEN) or {}).get("summary"):
            return Message.objects.using(database()).filter(pk=UUID(pk)).first()
    return None


async def _written(runner: Runner, policy: Summary, before: Message | None, first: int) -> Message | None:
    """A new summary of what comes before a position, saved; None where it could not be written."""
    covered = [m for m in runner.conversation.messages if until(before) < m.position < first]
    text = "\n\n".join([*([_text_of(before)] if before else []), *map(_line, covered)])
    request = ModelRequest(policy.instructions, [{"role": "user", "content": [transcript.text_block(text)]}])
    try:
        answer = await runner.interruptible(_asked(policy, runner, request))
    except errors.CriogenError:
        raise  # the run was stopped
    except Exception:
        logger.exception("The summary of the thread %s could not be written; its model is given more", runner.lease.key)
        return None
    summary = transcript.text_of(answer.content)
    if not summary.strip():
        return None
    runner.account.add(runner.agent.name, answer.usage)
    message = Message(
        id=new_id(),
        thread_id=runner.thread_id,
        run_id=runner.run_id,
        role=Message.Role.USER,
        content=[transcript.text_block(f"Summary of the conversation so far:\n\n{summary}")],
        parent_id=covered[-1].pk,
        position=first,
        agent=runner.agent.name,
        metadata={SUMMARY: {"until": first - 1}},
    )
    runner.add(await in_database(saves.summary, runner.lease, message, answer.usage, runner.account.usage))
    return message


async def _asked(policy: Summary, runner: Runner, request: ModelRequest) -> ModelAnswer:
    """The model's whole answer; no piece of it is shown to anybody."""
    try:
        async with asyncio.timeout(settings.MODEL_TIMEOUT):
            async with aclosing(policy.backend(runner.agent.backend).stream(request)) as stream:
                answers = [piece async for piece in stream if isinstance(piece, ModelAnswer)]
            payload.check(answers[-1].content, "summary")
            return answers[-1]
    except asyncio.CancelledError:
        raise
    except BaseException as cause:  # a task that raises SystemExit would end the event loop
        raise tamed(cause) from cause


def _text_of(message: Message) -> str:
    return transcript.text_of(message.content)


def _line(message: Message) -> str:
    """One message as text: who said it, what it called, and what came of that."""
    parts: Iterable[str] = (_part(block) for block in message.content)
    return f"{message.role}: " + " ".join(part for part in parts if part)


def _part(block: dict[str, Any]) -> str:
    if "text" in block:
        return str(block["text"])
    if "tool_call" in block:
        return f"[calls {block['tool_call']['name']} with {payload.dumps(block['tool_call']['arguments'])}]"
    if "tool_result" in block:
        return payload.dumps(block["tool_result"]["content"])
    return f"[{next(iter(block))}]" if "reasoning" not in block else ""
