"""Approvals: approve, reject, decide, and their streams."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _

from criogen_threads import errors, inputs
from criogen_threads.agents import InvalidArguments, get_agent
from criogen_threads.engine import dispatch, driving, reads
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.journal import families, posts
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.journal.writing import patiently
from criogen_threads.engine.pools import in_database
from criogen_threads.policy import get_policy
from criogen_threads.redaction import restored
from criogen_threads.threads.base import Base
from criogen_threads.threads.streamed import listening
from criogen_threads.threads.syncing import blocking, blocking_stream, refuse_open_transaction

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from contextlib import aclosing
    from uuid import UUID

    from criogen_threads.engine.listening import Listener
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

    async def stream_approve(self) -> AsyncGenerator[dict[str, Any]]:
        """``approve``, and the events of the run as it goes on: see ``stream``. Leaving it cancels the run.

        Raises:
            As ``approve``.
        """
        async with self._listening(None, Decision(approve=True)) as events:
            async for event in events:
                yield event

    stream_approve_sync = blocking_stream(stream_approve)

    async def reject(self, reason: str = "") -> Reply:
        """Reject every call that waits, and continue the run: the model reads the reason, no tool runs.

        Raises:
            As ``approve``.
        """
        return await self._decide(None, Decision(approve=False, reason=inputs.reason(reason)))

    reject_sync = blocking(reject, writes=True)

    async def stream_reject(self, reason: str = "") -> AsyncGenerator[dict[str, Any]]:
        """``reject``, and the events of the run as it goes on: see ``stream``. Leaving it cancels the run.

        Raises:
            As ``approve``.
        """
        async with self._listening(None, Decision(approve=False, reason=inputs.reason(reason))) as events:
            async for event in events:
                yield event

    stream_reject_sync = blocking_stream(stream_reject)

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
        return await self._decide(_decisions(decisions), None)

    decide_sync = blocking(decide, writes=True)

    async def stream_decide(self, decisions: Mapping[Any, Any]) -> AsyncGenerator[dict[str, Any]]:
        """``decide``, and the events of the run as it goes on: see ``stream``. Leaving it cancels the run.

        Where calls still wait, there is the reply alone.

        Raises:
            As ``decide``.
        """
        async with self._listening(_decisions(decisions), None) as events:
            async for event in events:
                yield event

    stream_decide_sync = blocking_stream(stream_decide)

    async def answer(self, decisions: bool | Mapping[Any, Any], *, reason: str = "", version: int | None = None) -> str:
        """Put answers on record and return at once: the dispatcher continues the run after the last one.

        Args:
            decisions: True or False for every call that waits, or as ``decide`` takes them.
            reason: Why all of them are rejected.
            version: That of the thread which the person was shown: nothing is answered if it has moved on. With True
                or False, nor are the approvals of asked agents while others still work: answer those by their ids.

        Returns:
            The id of the run.

        Raises:
            ResumeInvalidError, InvalidArgumentsError, PermissionDeniedError: As ``decide``.
            ThreadNotFoundError: ``thread_not_found``: neither this actor's to see nor to answer.
        """
        for_all = Decision(decisions, inputs.reason(reason)) if isinstance(decisions, bool) else None
        named = None if isinstance(decisions, bool) else _decisions(decisions)
        await refuse_open_transaction()
        run_id = await in_database(self._record_visible, named, for_all, version)
        top = await in_database(families.awake, self.id)
        if await in_database(reads.is_due, top):
            await in_database(dispatch.resume, top)
        return str(run_id)

    answer_sync = blocking(answer, writes=True)

    def _record_visible(
        self, decisions: Mapping[Any, Decision] | None, for_all: Decision | None, version: int | None
    ) -> UUID:
        """``record``, for a thread that the actor may see, or has an approval of to answer."""
        if self.actor is not None:
            thread = reads.thread(self.id)
            if thread is None or not (get_policy().see(self.actor, thread) or self._may_answer(thread, decisions)):
                raise errors.ThreadNotFoundError
        return self.record(decisions, for_all, version)

    def _may_answer(self, thread: Thread, decisions: Mapping[Any, Decision] | None) -> bool:
        """Whether one of the calls that are asked about is this actor's to answer, or was."""
        run = thread.current_run
        waiting = reads.pending(thread.id, run.id) if run else []
        calls = [*waiting, *reads.calls(thread.id, map(inputs.identifier, decisions or ()))]
        return any(get_policy().decide(self.actor, call, call.thread, call.run) for call in calls)

    async def _decide(self, decisions: Mapping[Any, Decision] | None, for_all: Decision | None) -> Reply:
        conduct = Conduct()
        return await conduct.see_through(self._answer(conduct, decisions, for_all))

    def _listening(
        self, decisions: Mapping[Any, Decision] | None, for_all: Decision | None
    ) -> aclosing[AsyncGenerator[dict[str, Any]]]:
        conduct = Conduct()
        return listening(conduct, partial(self._answer, conduct, decisions, for_all))

    async def _answer(
        self,
        conduct: Conduct,
        decisions: Mapping[Any, Decision] | None,
        for_all: Decision | None,
        listener: Listener | None = None,
    ) -> Reply:
        await refuse_open_transaction()
        run_id = await in_database(self._record_visible, decisions, for_all, None)
        return await driving.go_on(conduct, self.id, run_id, self.agent, self.actor, listener)

    def record(
        self, decisions: Mapping[Any, Decision] | None, for_all: Decision | None = None, version: int | None = None
    ) -> UUID:
        """Put answers on record, without running anything; returns the run that they belong to."""
        families.awake(self.id)
        thread = reads.thread(self.id)
        run: Run | None = thread.current_run if thread else None
        if thread is None or run is None:
            raise errors.ResumeInvalidError(_("no approval waits here"))
        waiting = {call.id: call for call in reads.pending(thread.id, run.id)}
        answers = dict.fromkeys(waiting, for_all) if for_all else _by_id(decisions or {})
        if not answers:
            raise errors.ResumeInvalidError(_("no approval waits here"), **reads.last_answer(thread.id, run.id))
        for call in reads.calls(thread.id, answers):
            answers[call.id] = self._checked(call, answers[call.id])
        posts.decide(self.id, answers, Asker.of(self.actor), version, everything=for_all is not None)
        patiently(lambda: families.awake(self.id))  # repeated alone: the answers are on record
        return run.id

    def _checked(self, call: ToolCall, decision: Decision) -> Decision:
        """The answer, once it is clear that this actor may give it and that edited arguments fit the tool."""
        if self.actor is not None and not get_policy().decide(self.actor, call, call.thread, call.run):
            raise errors.PermissionDeniedError
        if decision.arguments is None:
            return decision
        agent = self.agent if self.agent.name == call.agent else get_agent(call.agent)
        tool = agent.tools.get(call.name)
        if tool is None:
            raise errors.InvalidArgumentsError(f"there is no tool named {call.name!r} any more")
        arguments = restored(decision.arguments, call.arguments, tool.secrets)
        try:
            tool.validate(arguments)
        except InvalidArguments as problem:
            raise errors.InvalidArgumentsError(str(problem)) from None
        return replace(decision, arguments=arguments)


def _decisions(given: Any) -> dict[Any, Decision]:
    if not isinstance(given, dict) or not given:
        raise errors.ResumeInvalidError("decisions are a dict of call ids and answers")
    return {key: inputs.decision(value) for key, value in given.items()}


def _by_id(decisions: Mapping[Any, Decision]) -> dict[UUID, Decision]:
    answers = {}
    for key, decision in decisions.items():
        call_id = inputs.identifier(key)
        if call_id is None:
            raise errors.ResumeInvalidError(_("no such approval waits here"), call=str(key)[:100])
        answers[call_id] = decision
    return answers
