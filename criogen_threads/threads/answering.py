"""Approvals: approve, reject, decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import errors, inputs
from criogen_threads.agents import InvalidArguments, get_agent
from criogen_threads.engine import driving, reads
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.journal import posts
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.threads import in_database
from criogen_threads.policy import get_policy
from criogen_threads.threads.base import Base
from criogen_threads.threads.syncing import blocking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from criogen_threads.engine.replies import Reply
    from criogen_threads.models import Run, Thread, ToolCall


class Answering(Base):
    """The part of a handle that answers approvals."""

    async def approve(self) -> Reply:
        """Approve every call that waits, and continue the run.

        Raises:
            ResumeInvalidError: ``resume_invalid``: nothing waits, or somebody else has answered.
            PermissionDeniedError: ``permission_denied``: not this actor's to answer.
        """
        return await self._decide(None, Decision(approve=True))

    approve_sync = blocking(approve, writes=True)

    async def reject(self, reason: str = "") -> Reply:
        """Reject every call that waits, and continue the run: the model reads the reason, no tool runs.

        Raises:
            As ``approve``.
        """
        return await self._decide(None, Decision(approve=False, reason=inputs.reason(reason)))

    reject_sync = blocking(reject, writes=True)

    async def decide(self, decisions: Mapping[Any, Any]) -> Reply:
        """Answer some calls or all; the run goes on when the last one is answered.

        Args:
            decisions: By the id of the call (``reply.pending[…]["id"]``): True, False, or
                ``{"approve": bool, "reason": text, "arguments": edited, "digest": of those shown}``.

        Returns:
            The reply of the run, or one with ``status="suspended"`` while calls still wait.

        Raises:
            ResumeInvalidError: ``resume_invalid``: an unknown or answered call. None of the answers is kept.
            InvalidArgumentsError: ``invalid_arguments``: the edited arguments do not fit the tool.
            PermissionDeniedError: ``permission_denied``.
        """
        if not isinstance(decisions, dict) or not decisions:
            raise errors.ResumeInvalidError("decisions are a dict of call ids and answers")
        return await self._decide({key: inputs.decision(value) for key, value in decisions.items()}, None)

    decide_sync = blocking(decide, writes=True)

    async def _decide(self, decisions: Mapping[Any, Decision] | None, for_all: Decision | None) -> Reply:
        await self._may_change("see")
        conduct = Conduct()
        return await conduct.see_through(self._answer(conduct, decisions, for_all))

    async def _answer(
        self, conduct: Conduct, decisions: Mapping[Any, Decision] | None, for_all: Decision | None
    ) -> Reply:
        run_id = await in_database(self.record, decisions, for_all)
        return await driving.go_on(conduct, self.id, run_id, self.agent, self.actor)

    def record(self, decisions: Mapping[Any, Decision] | None, for_all: Decision | None = None) -> UUID:
        """Put answers on record, without running anything; returns the run that they belong to."""
        posts.expire(self.id)
        thread = reads.thread(self.id)
        run: Run | None = thread.current_run if thread else None
        if thread is None or run is None:
            raise errors.ResumeInvalidError("no approval waits here")
        waiting = {call.id: call for call in reads.pending(thread.id, run.id)}
        answers = dict.fromkeys(waiting, for_all) if for_all else _by_id(decisions or {})
        if not answers:
            raise errors.ResumeInvalidError("no approval waits here")
        for call_id, decision in answers.items():
            if call := waiting.get(call_id):
                self._check(call, decision, thread, run)
        posts.decide(self.id, answers, self.actor_id)
        return run.id

    def _check(self, call: ToolCall, decision: Decision, thread: Thread, run: Run) -> None:
        """May this actor answer this call, and do the edited arguments fit its tool?"""
        if self.actor is not None and not get_policy().decide(self.actor, call, thread, run):
            raise errors.PermissionDeniedError
        if decision.arguments is None:
            return
        agent = self.agent if self.agent.name == run.agent else get_agent(run.agent)
        tool = agent.tools.get(call.name)
        if tool is None:
            raise errors.InvalidArgumentsError(f"there is no tool named {call.name!r} any more")
        try:
            tool.validate(decision.arguments)
        except InvalidArguments as problem:
            raise errors.InvalidArgumentsError(str(problem)) from None


def _by_id(decisions: Mapping[Any, Decision]) -> dict[UUID, Decision]:
    answers = {}
    for key, decision in decisions.items():
        call_id = inputs.identifier(key)
        if call_id is None:
            raise errors.ResumeInvalidError("no such approval waits here", call=str(key)[:100])
        answers[call_id] = decision
    return answers
