"""From a wish to a reply: get the thread, run to the end, say what came of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.agents import get_agent
from criogen_threads.engine import admission, reads, stopping  # noqa: F401 (stopping hangs itself on atexit)
from criogen_threads.engine.journal import lines, saves
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.turns import SentBefore
from criogen_threads.engine.loop import Runner
from criogen_threads.engine.pools import in_database
from criogen_threads.engine.replies import Reply, make_reply
from criogen_threads.ids import new_id
from criogen_threads.models import Run
from criogen_threads.visitors import AnonymousVisitor

if TYPE_CHECKING:
    from uuid import UUID

    from criogen_threads.agents import Agent
    from criogen_threads.engine.admission import Conduct
    from criogen_threads.engine.journal.takes import Lease
    from criogen_threads.engine.journal.turns import Turn
    from criogen_threads.engine.listening import Listener

FOLLOW_PAUSE = 0.2
"""Seconds between two looks at a run that somebody else runs."""


async def take_turn(
    conduct: Conduct, turn: Turn, agent: Agent, actor: Any = None, listener: Listener | None = None
) -> Reply:
    """Start a turn and run it to its end; a turn that was sent before is followed instead."""
    while isinstance(outcome := await conduct.begin(turn), SentBefore):
        with suppress(errors.RunNotFoundError):  # its caller died while it waited in line: the turn is ours now
            return await follow(conduct, outcome.run_id)
    return await run(conduct, outcome, agent, actor, listener)


async def continue_run(
    conduct: Conduct, key: str, agent: Agent, actor: Any = None, listener: Listener | None = None
) -> Reply:
    """Take a thread to continue its run, waiting while somebody holds it."""
    lease = await conduct.once_free(admission.retry, key, new_id(), Asker.of(actor), on_busy="wait", key=key)
    return await run(conduct, lease, agent, actor, listener)


async def go_on(conduct: Conduct, key: str, run_id: UUID, agent: Agent, actor: Any) -> Reply:
    """After an answer: continue the run if that was the last one, else say what still waits."""
    try:
        lease = await in_database(admission.resume, key, run_id)
    except errors.ResumeInvalidError:
        lease = None
    if lease is None:
        return await follow(conduct, run_id)  # something is still open, or somebody else has taken it up
    return await run(conduct, lease, agent, actor)


async def run(
    conduct: Conduct,
    lease: Lease,
    agent: Agent | None = None,
    actor: Any = None,
    listener: Listener | None = None,
) -> Reply:
    """Run what a lease gives the right to, with the agent that the run names."""
    try:
        named = agent if agent is not None and agent.name == lease.run.agent else get_agent(lease.run.agent)
    except errors.AgentNotFoundError as error:
        await in_database(saves.fail, lease, error, new_id())
        raise
    actor = await _actor(lease, actor)
    runner = conduct.drive(Runner(named, lease, actor, listener))
    ended = await runner.run()
    return make_reply(lease.run, ended.status, runner.usage, ended.conversation.messages, ended.conversation.calls)


async def _actor(lease: Lease, given: Any) -> Any:
    """Whose turn it is: the one who asked for the run, whoever continues it."""
    asked = lease.run.actor_id
    if lease.run.visitor:
        return AnonymousVisitor(lease.run.visitor, lease.run.address)
    if asked is None or (given is not None and given.pk == asked):
        return given if asked is not None else None
    return await in_database(lambda: lease.run.actor)


async def follow(conduct: Conduct, run_id: UUID) -> Reply:
    """Wait until a run that somebody else runs has come to rest, and say what came of it.

    Raises:
        CriogenError: Why it failed, or that its process died.
    """
    while True:
        found = await in_database(reads.run_with_thread, run_id)
        if found is None:
            raise errors.RunNotFoundError
        row, thread, held = found
        match row.status:
            case Run.Status.COMPLETED:
                return await _reply_of(row, "completed")
            case Run.Status.REQUIRES_ACTION if thread.pending:
                return await _reply_of(row, "suspended")
            case Run.Status.FAILED:
                raise errors.error_class(row.error_code)(row.error_message)
            case Run.Status.IN_PROGRESS if not held:
                raise errors.ThreadInterruptedError
            case Run.Status.QUEUED:
                await in_database(lines.pass_over, thread.pk)
        await conduct.pause(FOLLOW_PAUSE)


async def _reply_of(row: Run, status: str) -> Reply:
    messages, calls = await in_database(reads.said, row)
    return make_reply(row, status, row.usage, messages, calls)
