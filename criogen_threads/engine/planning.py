"""Tool calls as the agent of today sees them: which can run, which need a person, which cannot run at all.

May run a site's code (approval functions, validators, the policy): call it in a tool thread then.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from criogen_threads import payload
from criogen_threads.agents import Delegate, HandOver, InvalidArguments, ToolContext
from criogen_threads.engine import transcript
from criogen_threads.engine.journal.calls import Planned
from criogen_threads.engine.transcript import NEW, OpenCall
from criogen_threads.ids import new_id
from criogen_threads.models import ToolCall
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from uuid import UUID

    from criogen_threads.agents import Agent, Tool
    from criogen_threads.backends.base import ModelAnswer
    from criogen_threads.engine.conversation import Conversation
    from criogen_threads.engine.journal.takes import Lease

logger = logging.getLogger("criogen_threads")


@dataclass(frozen=True, slots=True)
class Link:
    """One of the runs that ask each other: the agent, and the key of its thread."""

    agent: str
    thread: str


class Planner:
    """Judges the calls of one run.

    Args:
        chain: The runs that asked for this one, the first one first.
    """

    def __init__(self, agent: Agent, lease: Lease, actor: Any, chain: Sequence[Link] = ()) -> None:
        self.agent = agent
        self.lease = lease
        self.actor = actor
        self.chain = (*(link.agent for link in chain), agent.name)
        self.conversation = chain[0].thread if chain else lease.key
        self.problems: dict[UUID, str] = {}  # by row: why it cannot run, "" where it can

    def context(self, call: ToolCall | None = None) -> ToolContext:
        """What a tool, or the agent's instructions, are told."""
        lease, run = self.lease, self.lease.run
        return ToolContext(
            thread=lease.key,
            thread_id=lease.thread_id,
            run_id=run.id,
            agent=run.agent,
            actor=self.actor,
            locale=run.locale,
            state=lease.state,
            call_id=call.id if call else None,
            idempotency_key=f"{run.id}:{call.step}:{call.index}" if call else "",
            try_number=call.try_number if call else 1,
            conversation=self.conversation,
        )

    def open_calls(self, conversation: Conversation) -> list[OpenCall]:
        """The open calls of a conversation, each judged by its newest row in this run."""
        newest = conversation.newest(self.lease.run.id)
        asked = conversation.asked()
        waits = {asked_agent(row) for row in newest.values() if row.status == ToolCall.Status.WAITING}
        return [self._judge(index, asked[index], newest.get(index), waits) for index in conversation.open_indexes()]

    def has_judged(self, conversation: Conversation) -> bool:
        """Whether ``open_calls`` runs no code of the site: each open call was judged when it was planned."""
        newest = conversation.newest(self.lease.run.id)
        return all(self._problem_of(newest.get(index)) is not None for index in conversation.open_indexes())

    def _problem_of(self, row: ToolCall | None) -> str | None:
        """What was found when the row was planned, with the arguments that it still has."""
        return self.problems.get(row.id) if row is not None and row.edited_arguments is None else None

    def _judge(
        self, index: int, asked: dict[str, Any], row: ToolCall | None, waits: AbstractSet[str | None]
    ) -> OpenCall:
        tool = self.agent.tools.get(asked["name"])
        problem = self._problem_of(row)
        if problem is None:
            problem = self._problem(tool, asked["name"], row.effective_arguments if row else asked["arguments"])
        return OpenCall(
            index=index,
            status=row.status if row else NEW,
            on_crash=tool.on_crash if tool else "report",
            problem=problem,
            reason=row.reason if row else "",
            row=row.id if row else None,
            behind=row is not None and row.status != ToolCall.Status.WAITING and asked_agent(row) in waits - {None},
            hands_over=isinstance(tool, HandOver),
        )

    def _problem(self, tool: Tool | None, name: str, arguments: Any) -> str:
        """Why a call cannot run, in words for the model; "" when it can."""
        if tool is None:
            known = ", ".join(self.agent.tools) or "none"
            return f"There is no tool named {name[:100]!r}. The tools are: {known}."
        try:
            valid = tool.validate(arguments)
        except InvalidArguments as problem:
            return str(problem)
        if not isinstance(tool, Delegate | HandOver):
            return ""
        return tool.refusal(self.chain, valid) or (self._not_theirs(valid) if isinstance(tool, HandOver) else "")

    def _not_theirs(self, arguments: Mapping[str, Any]) -> str:
        """Why the conversation is not left to an agent that this user may not talk to; "" where they may."""
        agent = arguments["agent"]
        if self.actor is None or get_policy().use(self.actor, agent):
            return ""
        return f"This user may not talk to {agent}. Go on with the conversation yourself."

    def runs_site_code(self, answer: ModelAnswer) -> bool:
        """Whether ``plan_answer`` does, which then may take its time, or never end."""
        tools = (self.agent.tools.get(call["name"]) for call in transcript.tool_calls(answer.content))
        return any(tool is not None and not tool.is_plain for tool in tools)

    def plan_answer(self, answer: ModelAnswer, message_id: UUID, step: int) -> list[Planned]:
        """A row for each call of a fresh answer. Where all can go on at once, those that can are running."""
        asked = transcript.tool_calls(answer.content)
        planned = [self._plan(index, call, message_id=message_id, step=step) for index, call in enumerate(asked)]
        if not any(self.problems[plan.call.id] for plan in planned):
            for plan in self._that_start(planned):
                plan.call.status = ToolCall.Status.RUNNING
        return planned

    def _that_start(self, planned: Sequence[Planned]) -> Iterator[Planned]:
        """Those that run at once: an agent that is asked twice does one after the other."""
        busy: set[str | None] = set()
        for plan in planned:
            tool, agent = self.agent.tools[plan.call.name], asked_agent(plan.call)
            if plan.call.status != ToolCall.Status.READY or tool.atomic or isinstance(tool, HandOver):
                continue
            if agent is None or agent not in busy:
                yield plan
            busy.add(agent)

    def plan_again(self, conversation: Conversation, calls: Sequence[OpenCall]) -> list[Planned]:
        """A new row for calls that a fork, a void approval or a crash left without a valid one."""
        answer = conversation.last_answer
        if answer is None:
            return []
        newest = conversation.newest(self.lease.run.id)
        asked = conversation.asked()
        return [
            self._plan(
                call.index, asked[call.index], message_id=answer.id, step=self.lease.step,
                before=newest.get(call.index), ask=call.status == "unknown",
            )
            for call in calls
        ]  # fmt: skip

    def _plan(
        self, index: int, asked: dict[str, Any], *, message_id: UUID, step: int, before: ToolCall | None = None,
        ask: bool = False,
    ) -> Planned:  # fmt: skip
        """One row: ready, or waiting for whoever must agree (``ask``: a person, whatever the tool says)."""
        lease = self.lease
        arguments = before.effective_arguments if before else asked["arguments"]
        call = ToolCall(
            id=new_id(),
            thread_id=lease.thread_id,
            run_id=lease.run.id,
            message_id=message_id,
            step=before.step if before else step,
            index=index,
            try_number=before.try_number + 1 if before else 1,
            call_id=_short(asked["id"], 200),
            name=_short(asked["name"], 100),
            arguments=arguments,
            arguments_digest=payload.keyed_digest(arguments),
        )
        tool = self.agent.tools.get(asked["name"])
        self.problems[call.id] = self._problem(tool, asked["name"], arguments)
        if tool is None or self.problems[call.id]:
            return Planned(call)
        if isinstance(tool, Delegate):
            call.child_run_id = new_id()
        call.approver = self._approver(tool, call) or ("staff" if ask else "")
        if not call.approver:
            return Planned(call)
        call.status = ToolCall.Status.AWAITING_APPROVAL
        return Planned(call, None if tool.expires_in is None else timedelta(seconds=tool.expires_in))

    def _approver(self, tool: Tool, call: ToolCall) -> str:
        """Who must agree. A function that fails cannot have allowed the call: staff decide."""
        try:
            return tool.needs_approval(self.context(call), tool.validate(call.arguments))
        except (Exception, SystemExit):
            logger.exception("The approval function of the tool %s failed; staff are asked", tool.name)
            return "staff"


def asked_agent(call: ToolCall) -> str | None:
    """The agent that a call asks; None for a call of any other tool."""
    return str(call.effective_arguments["agent"]) if call.child_run_id else None


def by_agent(calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
    """Calls that ask agents, those of each agent together."""
    found: dict[str | None, list[ToolCall]] = {}
    for call in calls:
        found.setdefault(asked_agent(call), []).append(call)
    return list(found.values())


def _short(text: str, length: int) -> str:
    """What a column can hold of a name that a model made up."""
    return text.replace("\0", "")[:length]
