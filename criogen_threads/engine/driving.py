"""From a wish to a reply: get the thread, run to the end, say what came of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.agents import get_agent
from criogen_threads.engine import admission, reads, stopping  # noqa: F401 (stopping hangs itself on atexit)
from criogen_threads.engine.journal import families, lines, saves
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.turns import SentBefore
from criogen_threads.engine.loop import Runner
from criogen_threads.engine.pools import in_database
from criogen_threads.engine.replies import Reply, make_reply, reply_of_many
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
    await in_database(families.awake, key)
    lease = await conduct.once_free(admission.retry, key, new_id(), Asker.of(actor), on_busy="wait", key=key)
    return await run(conduct, lease, agent, actor, listener)


async def go_on(
    conduct: Conduct, key: str, run_id: UUID, agent: Agent, actor: Any, listener: Listener | None = None
) -> Reply:
    """After an answer: continue the run if that was the last one, else say what still waits.

    A run that another one asked for is continued by the first one of them all.
    """
    top = await in_database(families.awake, key)
    try:
        lease = await in_database(admission.resume, top, run_id if top == key else None)
    except errors.ResumeInvalidError:
        lease = None
    if lease is None:
        return await follow(conduct, run_id)  # something is still open, or somebody else has taken it up
    if top == key:
        return await run(conduct, lease, agent, actor, listener)
    with suppress(errors.CriogenError):  # how those above it end is told to whoever asked them
        await run(conduct, lease)
    return await follow(conduct, run_id)


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
        await in_database(families.settle, lease.thread_id)  # the runs that it asked for end with it
        raise
    actor = await _actor(lease, actor)
    if any(event.type == "error" for event in lease.saved.events):
        await in_database(families.settle, lease.thread_id)  # a run was left: those that it asked for end too
    runner = conduct.drive(Runner(named, lease, actor, listener))
    ended = await runner.run()
    lease.run.usage = runner.account.usage
    messages, calls = ended.conversation.messages, ended.conversation.calls
    if runner.agent.agency is None:
        return make_reply(lease.run, ended.status, messages, calls)
    return await in_database(reply_of_many, lease.run, ended.status, messages)


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
            case Run.Status.REQUIRES_ACTION if await in_database(reads.sleeps, row, thread):
                return await _reply_of(row, "suspended")
            case Run.Status.REQUIRES_ACTION if await in_database(reads.is_forsaken, thread):
                raise errors.ThreadInterruptedError
            case Run.Status.FAILED:
                raise errors.error_class(row.error_code)(row.error_message)
            case Run.Status.IN_PROGRESS if not held:
                raise errors.ThreadInterruptedError
            case Run.Status.QUEUED:
                await in_database(lines.pass_over, thread.pk)
        await conduct.pause(FOLLOW_PAUSE)


async def _reply_of(row: Run, status: str) -> Reply:
    messages = await in_database(reads.said, row)
    return await in_database(reply_of_many, row, status, messages)
