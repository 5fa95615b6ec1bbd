"""Asking other agents, and leaving the conversation to one of them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from criogen_threads import errors
from criogen_threads.conf import settings
from criogen_threads.engine import lease as leases
from criogen_threads.engine import reads
from criogen_threads.engine.journal import delegations, memories, saves
from criogen_threads.engine.journal.statements import database
from criogen_threads.engine.pools import in_database
from criogen_threads.engine.stoppable import UNSAVED
from criogen_threads.engine.transcript import result_block, text_block, text_of
from criogen_threads.ids import new_id
from criogen_threads.models import Run, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from criogen_threads.agents import Agency, Agent
    from criogen_threads.engine.journal.takes import Lease
    from criogen_threads.engine.loop import Runner

logger = logging.getLogger("criogen_threads")

PAUSE = 0.1
"""Seconds between two looks at the thread of an agent that somebody else holds."""

FAILS_THE_CALLER = ("model_failed", "internal_error", "approval_required")
"""How an asked run fails so that its caller fails too: what a model cannot help, and a retry may."""


class Delegating:
    """Carries out the calls of one runner that turn to other agents.

    An asked run is run in here, below its caller: whatever stops the caller stops it first. It is taken up where its
    rows say it stands, so that the same code begins it, goes on with it, and reads what it answered.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.asked = runner.conversation.asked()

    async def in_order(self, calls: Sequence[ToolCall]) -> None:
        """Ask one agent several things, one after the other: what comes behind one that waits for people waits too."""
        for call in calls:
            if not await self._ask(call):
                return

    async def _ask(self, call: ToolCall) -> bool:
        """Whether the answer is there, and saved; else the call waits."""
        runner, retries = self.runner, call.status == ToolCall.Status.UNKNOWN
        if call.status != ToolCall.Status.RUNNING:
            await runner.begin([call])
        outcome = await self._outcome(call, retries)
        if outcome is None:
            runner.add(await in_database(saves.wait, runner.lease, call))
            call.status = ToolCall.Status.WAITING
            return False
        metadata = await in_database(memories.of_run, database(), call.child_run_id)
        await runner.save_results([self._result(call, *outcome, metadata, start=call.id)])
        await runner.account.look_below(runner.agent)
        return True

    async def _outcome(self, call: ToolCall, retries: bool) -> tuple[str, str] | None:
        """What the model reads, and how the call ended; None while people are waited for."""
        runner, agent = self.runner, self._agent(call)
        try:
            found = await self._taken(call, agent, retries)
            if isinstance(found, Run):
                return await in_database(_at_rest, agent, found)
            child = runner.nested(agent, found)
            with runner.stopping_too(child):
                ended = await child.run()
        except UNSAVED:
            raise
        except errors.CriogenError as error:
            runner.heed()  # what stopped this run stopped the other
            return _failed(agent, error)
        if ended.status == "suspended":
            return None
        return text_of(ended.conversation.messages[-1].content), ToolCall.Status.DONE

    async def _taken(self, call: ToolCall, agent: Agent, retries: bool) -> Lease | Run:
        """The agent's thread, or its run where that is at rest."""
        runner = self.runner
        wish = delegations.Delegation(
            thread_id=runner.thread_id,
            caller=runner.lease.run,
            call_id=call.id,
            run_id=cast("UUID", call.child_run_id),  # it has one since it was planned
            agent=agent.name,
            content=[text_block(call.effective_arguments["message"])],
            state=runner.lease.state,
            memory=memories.last(reversed(runner.conversation.messages), agent.name),
            checkpoint=call.child_checkpoint_id,
            retries=retries,
        )
        clock = asyncio.get_running_loop().time
        deadline = clock() + settings.BUSY_TIMEOUT
        while (found := await in_database(_take, wish)) is None:
            if clock() >= deadline:
                raise errors.ThreadBusyError
            await runner.interruptible(asyncio.sleep(PAUSE))
        return found

    def _agent(self, call: ToolCall) -> Agent:
        agency = cast("Agency", self.runner.agent.agency)  # only its agents have such tools
        return agency.agents[call.effective_arguments["agent"]]

    # Handing over --------------------------------------------------------------------------------------------------

    async def hand_over(self, calls: Sequence[ToolCall]) -> None:
        """Let the first agent that was named go on; to whom else it was offered does not get it."""
        runner, agent = self.runner, self._agent(calls[0])
        said = f"The conversation is handed over to {agent.name}."
        first = self._result(calls[0], said, ToolCall.Status.DONE, {memories.HANDED_OVER: agent.name})
        late = [self._result(call, f"It was not: {said}", ToolCall.Status.ERROR, ran=False) for call in calls[1:]]
        results = [*late, first]  # the last message says who goes on
        runner.account.tell_apart(runner.agent.name)
        saved = await in_database(saves.hand_over, runner.lease, results, agent.name, runner.account.usage, new_id())
        runner.settled(results, saved)
        runner.become(agent)

    def _result(
        self, call: ToolCall, text: str, status: str, metadata: dict[str, Any] | None = None, **values: Any
    ) -> saves.Result:
        asked = self.asked[call.index]
        block = result_block(asked["id"], asked["name"], text, is_error=status != ToolCall.Status.DONE)
        return saves.Result(call, block, status, metadata=metadata, **values)


def _take(wish: delegations.Delegation) -> Lease | Run | None:
    return delegations.take(wish, leases.current().ensure())


def _at_rest(agent: Agent, run: Run) -> tuple[str, str] | None:
    """The outcome of a run that nobody has to run."""
    match run.status:
        case Run.Status.REQUIRES_ACTION:
            return None
        case Run.Status.COMPLETED:
            return reads.answer_of(run), ToolCall.Status.DONE
    return _failed(agent, errors.error_class(run.error_code)(run.error_message))


def _failed(agent: Agent, error: errors.CriogenError) -> tuple[str, str]:
    """What the model reads; people read why a caller failed: who was asked is in it only where they are shown that."""
    if error.code not in FAILS_THE_CALLER:
        return f"{agent.name} did not finish: {error}", ToolCall.Status.ERROR
    if cast("Agency", agent.agency).visible == "all":
        raise type(error)(f"{agent.name}: {error}") from error
    logger.warning("The asked agent %s failed, and its caller with it: %s", agent.name, error)
    raise type(error)(str(error)) from error
