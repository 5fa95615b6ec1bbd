"""Who may do what: one class, which a site can replace with ``POLICY``.

Each verb is asked of one thing (may this be done?), and three also of a queryset (to which of these?): ``see`` with
``seen``, ``send`` with ``sendable``, ``decide`` with ``decidable``. A site that changes one of a pair changes both: a
list must not show what its page refuses. All are synchronous and may ask the database. An actor of None is the site's
own code and is never asked about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet
from django.utils.module_loading import import_string

from criogen_threads.agents import all_agents
from criogen_threads.conf import settings
from criogen_threads.visitors import AnonymousVisitor, is_somebody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from criogen_threads.models import Run, Thread, ToolCall


class Policy:
    """The default: people have their own threads, staff what their permissions say, and who asked never
    answers a "staff" approval. A user may be a visitor (``visitors.AnonymousVisitor``), who has no primary key."""

    def see(self, user: Any, thread: Thread) -> bool:
        """Read the conversation; that of an asked agent only where its agency shows who asks whom (``visible``)."""
        if self._staff(user, "view_transcript"):
            return True
        return self.owns(user, thread) and (thread.parent_id is None or thread.agent in _shown_agents())

    def seen(self, user: Any, threads: QuerySet[Thread]) -> QuerySet[Thread]:
        """Those of these threads that ``see`` allows, for lists."""
        if self._staff(user, "view_transcript"):
            return threads
        return threads.filter(self._own(user)).filter(Q(parent=None) | Q(agent__in=_shown_agents()))

    def inspect(self, user: Any, thread: Thread) -> bool:  # noqa: ARG002 (a site's policy may look at it)
        """Be shown what tools keep for staff (``visible="name"`` and ``"staff"``); secrets are shown to nobody."""
        return self._staff(user, "view_transcript") or self._staff(user, "decide_toolcall")

    def create(self, user: Any, key: str) -> bool:  # noqa: ARG002
        """Begin a conversation under this key, which the site's code, a ticket or the server chose."""
        return is_somebody(user)

    def choose_key(self, user: Any, key: str) -> bool:  # noqa: ARG002
        """Begin a conversation under a key of one's own choice, from outside and without a ticket.

        Nobody: who could take "user-42" first would own what the site means for user 42.
        """
        return False

    def use(self, user: Any, agent: str) -> bool:
        """Talk to this agent: begin with it, address it, or have the conversation handed over to it.

        Not asked where an agent asks another one: whom it asks is the site's choice, and answers the agent alone.
        """
        return agent in settings.VISITOR_AGENTS if isinstance(user, AnonymousVisitor) else _is_active(user)

    def send(self, user: Any, thread: Thread) -> bool:
        """Say something, or continue a run."""
        if isinstance(user, AnonymousVisitor) and not self.use(user, thread.agent):
            return False
        return self.owns(user, thread)

    def sendable(self, user: Any, threads: QuerySet[Thread]) -> QuerySet[Thread]:
        """Those in which people speak: not those of agents that were asked in them."""
        return threads.filter(self._own(user), parent=None)

    def retry(self, user: Any, thread: Thread) -> bool:
        """Continue its failed or interrupted run, saying nothing new."""
        return self.send(user, thread) or self._staff(user, "retry_run")

    def decide(self, user: Any, call: ToolCall, thread: Thread, run: Run | None) -> bool:
        """Answer this approval."""
        if call.approver == "owner":
            return self.owns(user, thread)
        return self._staff(user, "decide_toolcall") and user.pk not in self.asked_by(thread, run)

    def decidable(self, user: Any, calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
        """The approvals that this user may answer; whoever asked further up a chain is left to ``decide``."""
        mine = Q(approver="owner") & self._own(user, "thread__")
        if self._staff(user, "decide_toolcall"):
            mine |= ~Q(approver="owner") & ~Q(thread__owner=user) & ~Q(run__actor=user)
        return calls.filter(mine)

    def rewind(self, user: Any, thread: Thread) -> bool:
        """Go back to an earlier checkpoint; where calls behind it changed something, ``undo`` is asked, too."""
        return self.owns(user, thread) or self._staff(user, "rewind_thread")

    def undo(self, user: Any, thread: Thread, calls: Sequence[ToolCall]) -> bool:  # noqa: ARG002
        """Go back behind these calls, which changed something: the model would make them again."""
        return self._staff(user, "rewind_thread")

    def cancel(self, user: Any, thread: Thread) -> bool:
        """Stop a run, whether it waits in line, is under way or waits for people."""
        return self.owns(user, thread) or self._staff(user, "cancel_run")

    def delete(self, user: Any, thread: Thread) -> bool:
        """Remove the conversation with all that belongs to it, for good."""
        return self.owns(user, thread) or self._staff(user, "delete_thread")

    # What the answers are made of --------------------------------------------------------------------------------

    def owns(self, user: Any, thread: Thread) -> bool:
        """Whether the conversation is this user's, or this visitor's: most answers above begin with it."""
        if isinstance(user, AnonymousVisitor):
            return thread.owner_id is None and bool(user.visitor) and thread.visitor == user.visitor
        return _is_active(user) and thread.owner_id == user.pk

    def asked_by(self, thread: Thread, run: Run | None) -> set[Any]:
        """Primary keys of everybody who asked: the owner, and every actor up the chain of runs and of their forks."""
        asked, runs = {thread.owner_id}, [run]
        while runs:
            if found := runs.pop():
                asked.add(found.actor_id)
                runs += [found.parent_run, found.forked_from]
        return asked - {None}

    def _own(self, user: Any, thread: str = "") -> Q:
        """``owns`` for querysets; ``thread`` is the way there from other rows."""
        if isinstance(user, AnonymousVisitor) and user.visitor:
            return Q(**{f"{thread}owner": None, f"{thread}visitor": user.visitor})
        return Q(**{f"{thread}owner": user}) if _is_active(user) else Q(pk__in=())

    def _staff(self, user: Any, permission: str) -> bool:
        return _is_active(user) and user.is_staff and user.has_perm(f"criogen_threads.{permission}")


def _is_active(user: Any) -> bool:
    return bool(user is not None and user.is_authenticated and user.is_active)


def _shown_agents() -> list[str]:
    """The agents whose conversations with those that ask them are shown to people."""
    return [agent.name for agent in all_agents() if agent.agency is not None and agent.agency.visible == "all"]


def get_policy() -> Policy:
    """The site's policy."""
    policy: Policy = import_string(settings.POLICY)()
    return policy
