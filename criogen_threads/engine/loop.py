"""The loop: read the rows, decide the next action, act, save, and round again."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.agents.secrecy import hide_secrets
from criogen_threads.engine import lease as leases
from criogen_threads.engine.asking import Request
from criogen_threads.engine.calling import Caller
from criogen_threads.engine.conversation import Conversation
from criogen_threads.engine.counting import Account
from criogen_threads.engine.delegation import Delegating
from criogen_threads.engine.hooks import called, told
from criogen_threads.engine.journal import families, saves
from criogen_threads.engine.listening import publish_live
from criogen_threads.engine.planning import Link, Planner, by_agent
from criogen_threads.engine.pools import in_database, in_tool_thread
from criogen_threads.engine.stoppable import UNSAVED, Stoppable
from criogen_threads.engine.transcript import (
    Action,
    AskModel,
    Fail,
    Finish,
    HandOver,
    Plan,
    RunTools,
    Settle,
    Suspend,
    next_action,
    result_block,
)  # fmt: skip
from criogen_threads.engine.viewing import view_for
from criogen_threads.engine.views import saved_events
from criogen_threads.ids import new_id
from criogen_threads.models import ToolCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from uuid import UUID

    from criogen_threads.agents import Agent
    from criogen_threads.backends.base import ModelAnswer
    from criogen_threads.engine.journal.calls import Planned
    from criogen_threads.engine.journal.pen import Saved
    from criogen_threads.engine.journal.takes import Lease
    from criogen_threads.engine.listening import Listener
    from criogen_threads.engine.transcript import OpenCall, Outcome

logger = logging.getLogger("criogen_threads")

HOOK_SECONDS = 30.0
"""Seconds that a hook may take about what is saved already."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Where a run has come to rest: completed, or suspended."""

    status: str
    conversation: Conversation


class Runner(Stoppable):
    """One run, from the moment its thread is taken until it completes, suspends or fails.

    Args:
        agent: Who answers.
        lease: The right to write the run.
        actor: The user whose turn it is, or None.
        listener: Hears live pieces and saved events.
        chain: The runs that asked for this one, the first one first.
    """

    def __init__(
        self, agent: Agent, lease: Lease, actor: Any = None, listener: Listener | None = None,
        chain: Sequence[Link] = (),
    ) -> None:  # fmt: skip
        super().__init__()
        self.agent = agent
        self.lease = lease
        self.chain = chain
        self.listener = listener
        self.thread_id, self.run_id = lease.thread_id, lease.run.id
        self.conversation = Conversation()
        self.planner = Planner(agent, lease, actor, chain)
        self.account = Account(lease.run, lease.step)
        self.starts: dict[UUID, UUID] = {}  # the event of each call's start
        self.partial = ""

    # The life of a run -----------------------------------------------------------------------------------------

    async def run(self) -> Ended:
        """Run to the end.

        Returns:
            Where it came to rest; it is saved.

        Raises:
            CriogenError: Why it failed. The failure is saved, unless the lease or the database was lost.
        """
        worker = leases.current()
        worker.runs[self.thread_id] = self
        self.watch(self.agent.max_seconds)
        try:
            ended = await self._to_its_end()
        finally:
            self.unwatch()
            if worker.runs.get(self.thread_id) is self:
                del worker.runs[self.thread_id]
        if self.agent.handling is not None:
            await self._tell_site(self.agent.handling.after_turn, ended.status)
        return ended

    async def _to_its_end(self) -> Ended:
        try:
            self._tell(self.lease.saved)
            read = self.lease.conversation
            self.conversation = read if read is not None else await in_database(Conversation.read, self.lease.tail)
            await self.account.look_below(self.agent)
            if self.agent.handling is not None:
                await self.interruptible(called(self.agent.handling.before_turn, self.planner.context()))
            return await self._rounds()
        except UNSAVED:
            raise
        except errors.CriogenError as error:
            await self._fail(error)
            raise
        except asyncio.CancelledError:
            await self._fail(errors.RunCancelledError())
            raise
        except Exception as cause:
            logger.exception("The run %s failed", self.run_id)
            failure = errors.InternalError()
            await self._fail(failure)
            raise failure from cause

    async def _rounds(self) -> Ended:
        while True:
            action = await self._next()
            logger.debug("run %s: %s", self.run_id, type(action).__name__)
            if ended := await self._act(action):
                return ended

    async def _act(self, action: Action) -> Ended | None:
        match action:
            case AskModel():
                return await self._ask_model()
            case Plan(calls):
                await self._plan(calls)
            case Settle(outcomes):
                await self._settle(outcomes)
            case RunTools(calls):
                await self._run_tools(calls)
            case Suspend(behind):
                return await self._suspend(behind)
            case HandOver(calls):
                await Delegating(self).hand_over([self._row(call) for call in calls])
            case Finish():
                self.add(await in_database(saves.finish, self.lease, new_id()))
                return Ended("completed", self.conversation)
            case Fail(code, message):
                raise errors.error_class(code)(message)
        return None

    async def _next(self) -> Action:
        """The next action on the rows as they are now; validating arguments may take a moment, so in a thread."""
        self.heed()
        over_limit = self.account.over_limit(self.agent)
        if not self.conversation.open_indexes():
            return next_action(self.conversation.tail, (), over_limit=over_limit)
        if self.planner.has_judged(self.conversation):
            open_calls = self.planner.open_calls(self.conversation)
        else:
            open_calls = await in_tool_thread(self.planner.open_calls, self.conversation)
        return next_action(self.conversation.tail, open_calls, over_limit=over_limit)

    # Acting ------------------------------------------------------------------------------------------------------

    async def _ask_model(self) -> Ended | None:
        """One answer, saved with its calls; one without calls completes the run."""
        view = await view_for(self)
        request = Request(self.agent, self.planner.context(), view, self)
        answer = await request.send()
        self.account.add(self.agent.name, answer.usage)
        judge = partial(self.planner.plan_answer, answer, request.message_id, self.account.step + 1)
        if self.planner.runs_site_code(answer):
            planned = await in_tool_thread(judge)
            judge = partial(list, planned)
        saved = await in_database(self._judge_and_save, judge, answer, request.message_id, new_id(), view.note())
        self.partial = ""
        self.account.step += 1
        self.add(saved)
        return None if saved.calls else Ended("completed", self.conversation)

    def _judge_and_save(
        self, judge: Callable[[], Sequence[Planned]], answer: ModelAnswer, message_id: UUID, checkpoint_id: UUID,
        note: dict[str, Any] | None,
    ) -> Saved:  # fmt: skip
        calls = judge()
        return saves.answer(
            self.lease, answer, calls, self.account.usage,
            finishes=not calls, message_id=message_id, checkpoint_id=checkpoint_id, metadata=note,
        )  # fmt: skip

    async def _plan(self, calls: Sequence[OpenCall]) -> None:
        """Give rows to calls that have none that counts."""
        planned = await in_tool_thread(self.planner.plan_again, self.conversation, calls)
        self.add(await in_database(saves.plan, self.lease, planned))

    async def _settle(self, outcomes: Sequence[Outcome]) -> None:
        """Write the results of calls that will not run."""
        await self.save_results([self._settled(self._row(outcome.call), outcome.text) for outcome in outcomes])

    def _settled(self, call: ToolCall, text: str) -> saves.Result:
        asked = self.conversation.asked()[call.index]
        block = result_block(asked["id"], asked["name"], text, is_error=True)
        hide_secrets(block, call.effective_arguments, self.agent.tools.get(asked["name"]))
        status = ToolCall.Status.ERROR if call.status == ToolCall.Status.READY else call.status
        said = {"rejected": True} if status == ToolCall.Status.REJECTED else None  # for who reads the conversation
        return saves.Result(call, block, status, ran=False, metadata=said)

    async def _run_tools(self, calls: Sequence[OpenCall]) -> None:
        """Run calls side by side, atomic ones one after the other; each result is saved as it arrives."""
        caller = Caller(self)
        rows = [self._row(call) for call in calls]
        asking = [row for row in rows if row.child_run_id]
        others = [row for row in rows if not row.child_run_id]
        atomic = [row for row in others if caller.is_atomic(row)]
        plain = [row for row in others if not caller.is_atomic(row)]
        await self.begin([row for row in plain if row.status != ToolCall.Status.RUNNING])
        works = [*map(caller.run, plain), *([caller.run_atomic(atomic)] if atomic else [])]
        await self.together([*works, *(Delegating(self).in_order(calls) for calls in by_agent(asking))])

    async def begin(self, calls: Sequence[ToolCall]) -> None:
        """Mark calls as running before they run."""
        if calls:
            self.add(await in_database(saves.begin_calls, self.lease, calls))

    async def _suspend(self, behind: Sequence[UUID]) -> Ended | None:
        """Free the thread while people think; go on when an answer has come meanwhile."""
        if self.lease.ephemeral:
            raise errors.ApprovalRequiredError
        saved = await in_database(saves.suspend, self.lease, new_id(), behind)
        if saved is None:
            self.conversation = await in_database(Conversation.read, self.conversation.messages[-1].id)
            return None
        self.add(saved)
        return Ended("suspended", self.conversation)

    async def save_results(self, results: Sequence[saves.Result]) -> None:
        """Save results in one checkpoint."""
        self.settled(results, await in_database(saves.results, self.lease, results, new_id()))

    def settled(self, results: Sequence[saves.Result], saved: Saved) -> None:
        """Note that results are saved."""
        for result in results:
            result.call.result_id, result.call.status = result.message_id, result.status
        self.add(saved)

    async def _fail(self, error: errors.CriogenError) -> None:
        self._tell(await in_database(saves.fail, self.lease, error, new_id(), self.partial))
        if any(row.child_run_id and row.result_id is None for row in self.conversation.calls):
            await in_database(families.settle, self.thread_id)  # the runs that it asked for end with it
        if self.agent.handling is not None:
            await self._tell_site(self.agent.handling.on_turn_error, error)

    async def _tell_site(self, hook: Callable[..., Awaitable[None]], what: Any) -> None:
        """Call a hook about what is saved already; one that hangs keeps neither this run nor its caller from a stop."""
        if not await self.for_a_while(told(hook, self.planner.context(), what), HOOK_SECONDS):
            logger.warning("The hook %s did not come back in %g seconds", hook, HOOK_SECONDS)

    # Other agents ------------------------------------------------------------------------------------------------

    def nested(self, agent: Agent, lease: Lease) -> Runner:
        """The runner of a run that this one asks for."""
        link = Link(self.agent.name, self.lease.key)
        return Runner(agent, lease, self.planner.actor, chain=(*self.chain, link))

    def become(self, agent: Agent) -> None:
        """The run goes on with another agent."""
        self.agent, self.lease.run.agent = agent, agent.name
        self.planner = Planner(agent, self.lease, self.planner.actor, self.chain)

    def _row(self, call: OpenCall) -> ToolCall:
        return next(row for row in self.conversation.calls if row.id == call.row)

    def add(self, saved: Saved) -> None:
        """Note what was saved, and tell it."""
        self.conversation.add(saved.messages, saved.calls)
        self.starts.update({e.tool_call_id: e.id for e in saved.events if e.tool_call_id and e.type == "tool_start"})
        self._tell(saved)

    def _tell(self, saved: Saved) -> None:
        if self.listener is not None:
            for event in saved_events(saved, self.conversation.calls):
                self.listener(event)

    def hear(self, event: dict[str, Any]) -> None:
        """Pass a live piece on."""
        publish_live(self.lease.key, self.thread_id, event)
        if self.listener is not None:
            self.listener(event)
