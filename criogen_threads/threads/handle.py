"""The handle that ``agent.thread(key)`` gives, and a turn without a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import errors, inputs
from criogen_threads.agents import Agent, get_agent
from criogen_threads.engine import background, driving
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.journal import rewinds
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.turns import Turn
from criogen_threads.engine.pools import in_database
from criogen_threads.ids import new_id
from criogen_threads.threads.answering import Answering
from criogen_threads.threads.cancelling import Cancelling
from criogen_threads.threads.changing import Changing
from criogen_threads.threads.reading import Reading
from criogen_threads.threads.speaking import Speaking
from criogen_threads.threads.syncing import refuse_here, refuse_open_transaction

if TYPE_CHECKING:
    from criogen_threads.engine.replies import Reply
    from criogen_threads.models import Thread


class ThreadHandle(Speaking, Cancelling, Answering, Changing, Reading):
    """A conversation: holds its id, the agent and the actor, and nothing else.

    Two handles on one id, in any process, are the same conversation. Making one writes nothing.
    """


def handle_on(thread: Thread, actor: Any) -> ThreadHandle:
    """The handle on a thread that is there, on behalf of somebody; with the agent that it has.

    Where that is gone, one without tools stands in: the thread can still be rewound and deleted.
    """
    try:
        agent = get_agent(thread.agent)
    except errors.AgentNotFoundError:
        agent = Agent(thread.agent, model="gone")
    return ThreadHandle(thread.key, agent=agent, actor=actor)


async def run_once(agent: Agent, text: Any, actor: Any = None, state: dict[str, Any] | None = None) -> Reply:
    """One turn without a thread: the same loop on an ephemeral one, which is deleted at the end.

    Raises:
        ApprovalRequiredError: ``approval_required``: a tool needs an approval, and nobody could wait for it.
        CriogenError: As ``send``.
    """
    await refuse_open_transaction()
    turn = Turn(
        f"run-{new_id()}",
        agent.name,
        inputs.message_content(text),
        inputs.state(state or {}),
        asker=Asker.of(actor),
        ephemeral=True,
    )
    conduct = Conduct()
    return await conduct.see_through(_run_and_delete(conduct, turn, agent, actor))


async def _run_and_delete(conduct: Conduct, turn: Turn, agent: Agent, actor: Any) -> Reply:
    try:
        return await driving.take_turn(conduct, turn, agent, actor)
    finally:
        await in_database(rewinds.delete, turn.key)


def run_once_sync(agent: Agent, text: Any, actor: Any = None, state: dict[str, Any] | None = None) -> Reply:
    """``run_once`` for code without asyncio."""
    refuse_here()
    return background.run(run_once, agent, text, actor, state)
