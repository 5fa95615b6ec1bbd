"""What an agency does with conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import errors, inputs
from criogen_threads.engine import background, reads
from criogen_threads.engine.journal import posts
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.pools import in_database
from criogen_threads.ids import new_id
from criogen_threads.policy import get_policy
from criogen_threads.threads.handle import ThreadHandle
from criogen_threads.threads.syncing import refuse_here, refuse_open_transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import TypeVar

    from criogen_threads.agents import Agency, Agent
    from criogen_threads.engine.replies import Reply

    T = TypeVar("T")


async def create_thread(agency: Agency, agent: str | Agent | None, thread_id: str | None, actor: Any) -> ThreadHandle:
    """See ``Agency.create_thread``."""
    await refuse_open_transaction()
    wanted = agency.agent(agent)
    handle = ThreadHandle(str(new_id()) if thread_id is None else thread_id, agent=wanted, actor=actor)
    await in_database(_create, handle)
    return handle


def _create(handle: ThreadHandle) -> None:
    policy, actor = get_policy(), handle.actor
    if actor is not None and not (policy.use(actor, handle.agent.name) and policy.create(actor, handle.id)):
        raise errors.PermissionDeniedError
    posts.create(handle.id, handle.agent.name, Asker.of(actor), {})


async def get_thread(agency: Agency, thread_id: str, actor: Any) -> ThreadHandle | None:
    """See ``Agency.get_thread``."""
    try:
        key = inputs.thread_key(thread_id)
    except errors.InvalidThreadIdError:
        return None
    agent = await in_database(_agent_of, agency, key, actor)
    return None if agent is None else ThreadHandle(key, agent=agent, actor=actor)


def _agent_of(agency: Agency, key: str, actor: Any) -> Agent | None:
    """The agent that a thread of the agency is with; None for a thread that this actor does not see."""
    thread = reads.thread(key)
    if thread is None or (actor is not None and not get_policy().see(actor, thread)):
        return None
    return agency.agents.get(thread.agent)


async def get_completion(
    agency: Agency,
    message: Any,
    thread_id: str | None,
    recipient_agent: str | Agent | None,
    actor: Any,
    options: Mapping[str, Any],
) -> Reply:
    """See ``Agency.get_completion``."""
    recipient = None if recipient_agent is None else agency.agent(recipient_agent)
    key = str(new_id()) if thread_id is None else inputs.thread_key(thread_id)
    if thread_id is not None and await in_database(_is_of_others, agency, key):
        raise errors.ThreadNotFoundError
    handle = ThreadHandle(key, agent=agency.entry, actor=actor)
    return await handle.send(message, agent=recipient, **options)


def _is_of_others(agency: Agency, key: str) -> bool:
    thread = reads.thread(key)
    return thread is not None and thread.agent not in agency.agents


def blocking(function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """One of these, from code without asyncio."""
    refuse_here()
    return background.run(function, *args)
