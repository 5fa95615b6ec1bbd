"""Turns: send, submit, retry; and the streams of send and retry."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from criogen_threads import errors, inputs
from criogen_threads.engine import dispatch, driving
from criogen_threads.engine import lease as leases
from criogen_threads.engine.admission import Conduct
from criogen_threads.engine.journal import families, reopening, rewinds, turns
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.turns import SentBefore, Turn
from criogen_threads.engine.pools import in_database
from criogen_threads.ids import new_id
from criogen_threads.policy import get_policy
from criogen_threads.threads.base import Base
from criogen_threads.threads.streamed import listening
from criogen_threads.threads.syncing import blocking, blocking_stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from uuid import UUID

    from criogen_threads.agents import Agent
    from criogen_threads.backends.base import Block
    from criogen_threads.engine.journal.rewinds import Rewind
    from criogen_threads.engine.replies import Reply


class Speaking(Base):
    """The part of a handle that runs turns."""

    async def send(
        self,
        content: str | list[Block],
        /,
        *,
        on_busy: str | None = None,
        client_id: str | None = None,
        locale: str | None = None,
        agent: str | Agent | None = None,
        timeout: float | None = None,
        **state: Any,
    ) -> Reply:
        """Run one turn on top of everything said before.

        The message is saved before the model hears it. Cancelling the call stops the run, which is saved.

        Args:
            content: Text, or a list of text, image and file blocks.
            on_busy: What to do while another run holds the thread: "wait" (the default), "reject" or
                "interrupt".
            client_id: Sent twice, it is the same turn: the second call gets the first one's reply.
            locale: The language of the turn, such as "de".
            agent: Who answers this one message; by default the agent that the thread is with.
            timeout: Seconds to wait for a busy thread. Default ``BUSY_TIMEOUT``, 60.
            **state: Merged into the thread's state.

        Returns:
            The reply; its ``status`` is "suspended" where the run waits for a person.

        Raises:
            ThreadBusyError, ThreadSuspendedError, ThreadInterruptedError: The thread is not free.
            InvalidMessageError, MessageTooLargeError, InvalidStateError, InvalidOptionError: Nothing was written.
            ClientIdConflictError: This client_id came with another message.
            ModelFailedError, LimitReachedError: The run failed, and is saved: ``retry()`` can go on.
            PermissionDeniedError, ThreadNotFoundError: Not this actor's to speak in.
            ThreadDelegatedError: An agent was asked in this thread by another one.
            AgentNotFoundError: There is no such agent.
            InTransactionError: The caller has a transaction open.
        """
        turn = await self._turn(content, on_busy, client_id, locale, state, agent)
        conduct = Conduct(inputs.seconds(timeout, "timeout"))
        return await conduct.see_through(driving.take_turn(conduct, turn, self.agent, self.actor))

    send_sync = blocking(send, writes=True)

    async def stream(
        self,
        content: str | list[Block],
        /,
        *,
        on_busy: str | None = None,
        client_id: str | None = None,
        locale: str | None = None,
        agent: str | Agent | None = None,
        timeout: float | None = None,
        **state: Any,
    ) -> AsyncGenerator[dict[str, Any]]:
        """Run the same turn as ``send`` and yield its events as they happen.

        Live pieces are ``text_delta``, ``reasoning_delta`` and ``arguments_delta``; ``discarded`` says that the
        pieces of a message are void. Saved events are as ``get_events`` gives them. The last one is
        ``{"type": "reply", "reply": Reply}``. Leaving the stream cancels the run, which is saved.

        Raises:
            As ``send``.
        """
        turn = await self._turn(content, on_busy, client_id, locale, state, agent)
        conduct = Conduct(inputs.seconds(timeout, "timeout"))
        work = partial(driving.take_turn, conduct, turn, self.agent, self.actor)
        async with listening(conduct, work) as events:
            async for event in events:
                yield event

    stream_sync = blocking_stream(stream)

    async def submit(
        self,
        content: str | list[Block],
        /,
        *,
        on_busy: str | None = None,
        client_id: str | None = None,
        locale: str | None = None,
        agent: str | Agent | None = None,
        **state: Any,
    ) -> str:
        """Save a turn as queued and return at once: the dispatcher runs it, whatever happens to this process.

        Returns:
            The id of the run.

        Raises:
            As ``send``, but nothing of the run itself.
        """
        return await self.enqueue(
            content, on_busy=on_busy, client_id=client_id, locale=locale, state=state, agent=agent
        )

    submit_sync = blocking(submit, writes=True)

    async def enqueue(
        self,
        content: str | list[Block],
        /,
        *,
        on_busy: str | None = None,
        client_id: str | None = None,
        locale: str | None = None,
        state: Mapping[str, Any] | None = None,
        agent: str | Agent | None = None,
        checkpoint: str | UUID | None = None,
        timeout: float | None = None,
    ) -> str:
        """``submit`` for callers whose state comes from outside, where a key may be called like an option.

        Args:
            checkpoint: Go back there first, as ``rewind`` does, in the same save; the turn is then first in line.
            timeout: Seconds to wait for a busy thread before going back. Default ``BUSY_TIMEOUT``, 60.

        Returns:
            The id of the run.

        Raises:
            As ``submit``, and as ``rewind``.
        """
        turn = await self._turn(content, on_busy, client_id, locale, dict(state or {}), agent)
        if checkpoint is None:
            outcome: turns.Waiting | SentBefore = await in_database(_submit, turn)
        else:
            await self._may("rewind")
            conduct = Conduct(inputs.seconds(timeout, "timeout"))
            outcome = await conduct.see_through(
                conduct.once_free(_resend, turn, self._wish(checkpoint), on_busy=turn.on_busy, key=self.id)
            )
            await in_database(families.awake, self.id)
        if not isinstance(outcome, SentBefore):
            await in_database(dispatch.submit, outcome.run_id)
        return str(outcome.run_id)

    enqueue_sync = blocking(enqueue, writes=True)

    async def retry(self, *, timeout: float | None = None) -> Reply:
        """Continue the failed or interrupted run where it stopped; finished tool calls are not run again.

        Raises:
            ResumeInvalidError: ``resume_invalid``: there is nothing to retry.
            ThreadSuspendedError: ``thread_suspended``: an approval waits.
            ThreadBusyError: ``thread_busy``.
            ThreadDelegatedError: ``thread_delegated``: the agent that asked in this thread retries.
        """
        await self._may_change("retry")
        conduct = Conduct(inputs.seconds(timeout, "timeout"))
        return await conduct.see_through(driving.continue_run(conduct, self.id, self.agent, self.actor))

    retry_sync = blocking(retry, writes=True)

    async def stream_retry(self, *, timeout: float | None = None) -> AsyncGenerator[dict[str, Any]]:
        """``retry``, and its events as they happen: see ``stream``.

        Raises:
            As ``retry``.
        """
        await self._may_change("retry")
        conduct = Conduct(inputs.seconds(timeout, "timeout"))
        work = partial(driving.continue_run, conduct, self.id, self.agent, self.actor)
        async with listening(conduct, work) as events:
            async for event in events:
                yield event

    stream_retry_sync = blocking_stream(stream_retry)

    async def request_retry(self) -> str:
        """Reopen the run that ``retry`` continues and return at once: the dispatcher runs it.

        Returns:
            The id of the run.

        Raises:
            ThreadBusyError: ``thread_busy``: it is live, or another retry of it was accepted.
            ResumeInvalidError, ThreadSuspendedError, TooManyRunsError: As ``retry``.
        """
        await self._may_change("retry")
        await in_database(families.awake, self.id)
        run_id = await in_database(_accept_retry, self.id, Asker.of(self.actor))
        await in_database(dispatch.retry, run_id)
        return str(run_id)

    request_retry_sync = blocking(request_retry, writes=True)

    async def _turn(
        self,
        content: Any,
        on_busy: str | None,
        client_id: str | None,
        locale: str | None,
        state: dict[str, Any],
        agent: str | Agent | None = None,
    ) -> Turn:
        """Check everything before anything is written."""
        chosen = self.agent if agent is None else self._agent(agent)
        turn = Turn(
            self.id,
            chosen.name,
            inputs.message_content(content),
            inputs.state(state),
            inputs.client_id(client_id),
            Asker.of(self.actor),
            inputs.locale(locale),
            inputs.on_busy(on_busy),
            begins_with=self.agent.name,
            chosen=agent is not None,
        )
        if agent is not None:
            await self._may_use(chosen)
        if await self._may_change("send") or self.actor is None:
            return turn
        if not await in_database(get_policy().create, self.actor, self.id):
            raise errors.PermissionDeniedError
        return turn.creating()


def _submit(turn: Turn) -> turns.Waiting | SentBefore:
    return turns.submit(turn, leases.current().ensure())


def _resend(turn: Turn, wish: Rewind) -> turns.Waiting | SentBefore | None:
    return rewinds.resend(turn, wish, leases.current().ensure())


def _accept_retry(key: str, asker: Asker) -> UUID:
    return reopening.accept_retry(key, leases.current().ensure(), run_id=new_id(), asker=asker).id
