"""The conversation: a line, what it means where the thread stands, and round again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from criogen_threads import errors
from project.desk.models import Order
from project.desk.talk.commands import Commands, UnknownCommand
from project.desk.talk.turns import Turns

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from criogen_threads.agents import Agent
    from project.desk.talk.lines import Lines
    from project.desk.talk.screen import Screen

YES, NO = ("y", "yes"), ("n", "no")
HINTS = {
    "thread_interrupted": gettext_lazy("/retry continues it."),
    "model_failed": gettext_lazy("/retry asks it again."),
    "limit_reached": gettext_lazy("/retry goes on."),
    "lease_lost": gettext_lazy("/retry goes on."),
    "database_unavailable": gettext_lazy("/retry goes on once it is back."),
    "checkpoint_not_found": gettext_lazy("/history lists them."),
}


class Talk:
    """One conversation of a visitor with the desk; whoever types is the visitor, and the staff.

    Args:
        agent: Who answers.
        key: The thread.
        visitor: Who asks.
        staff: Who answers the approvals that need staff.
        lines: Where the words come from.
        screen: Where they go.
    """

    def __init__(self, agent: Agent, key: str, *, visitor: User, staff: User, lines: Lines, screen: Screen) -> None:
        self.visitor, self.staff = visitor, staff
        self.handle = agent.thread(key, actor=visitor)
        self.judges = {"owner": self.handle, "staff": agent.thread(key, actor=staff)}
        self.lines = lines
        self.screen = screen
        self.turns = Turns(self.handle, screen)
        self.commands = Commands(self.handle, self.judges["staff"], self.turns, screen)
        self._pending: dict[str, Any] | None = None

    def run(self) -> bool:
        """Talk until there is nothing more to say, or, where nobody can be asked, until something goes wrong.

        Returns:
            False when it ended because something went wrong.
        """
        well = self._attempt(self._welcome) and self._attempt(self._resume)
        while well or self.lines.interactive:
            if not self._attempt(self._look_for_approvals):
                return False
            line = self.lines.read(f"{self._who()}: ")
            if line is None or line == "/quit":
                return True
            well = self._attempt(self._answer, line)
        return False

    def _attempt(self, step: Any, *arguments: Any) -> bool:
        """Do something; what goes wrong is told in one line."""
        try:
            step(*arguments)
        except (errors.CriogenError, UnknownCommand) as error:
            hint = HINTS.get(getattr(error, "code", ""), "")
            self.screen.error(f"{error} {hint}".rstrip())
            return False
        except DatabaseError as error:
            self.screen.error(_("The database: %(error)s") % {"error": error})
            return False
        except KeyboardInterrupt:
            self.screen.line()
        return True

    # The beginning -------------------------------------------------------------------------------------------------

    def _welcome(self) -> None:
        screen = self.screen
        screen.line(_("Support desk of a small shop"), "1")
        screen.line(_("Ask where an order is, for a refund or for a call-back. There are these orders:"))
        for order in Order.objects.all()[:10]:
            screen.quiet(f"  {order.number}  {order.item}, {order.total} €, {order.get_status_display()}")
        screen.line(
            _("You are the visitor (%(visitor)s). Refunds wait for staff, which is you too (%(staff)s).")
            % {"visitor": self.visitor, "staff": self.staff}
        )
        screen.line(_("/help lists the commands, /quit leaves, Ctrl-C stops an answer."))
        said = len(self.handle.messages_sync())
        if said:
            screen.quiet(
                _("This conversation, %(key)s, goes on: /messages shows what was said. --new begins anew.")
                % {"key": self.handle.id}
            )
        screen.line()

    def _resume(self) -> None:
        """Say so when the last turn did not come to its end, and offer to continue it."""
        run = self.handle.get_current_run_sync()
        if run is None or run["status"] == "completed" or run["required_action"]:
            return
        if run["status"] == "failed":
            self.screen.line(_("The last turn failed: %(error)s.") % {"error": str(run["last_error"]).rstrip(".")})
        else:
            self.screen.line(_("The last turn was cut off before its end."))
        if self.lines.agrees(_("Continue it? [Y/n] ")):
            self.screen.quiet(_("(It goes on.)"))
            self.turns.retry()
        else:
            self.screen.quiet(_("/retry continues it later."))

    # A line --------------------------------------------------------------------------------------------------------

    def _look_for_approvals(self) -> None:
        """What waits for an answer, shown once."""
        run = self.handle.get_current_run_sync()
        waiting = (run or {}).get("required_action")
        before, self._pending = self._pending, waiting[0] if waiting else None
        if self._pending and (before is None or before["id"] != self._pending["id"]):
            self.screen.approval(self._pending, self._who())

    def _who(self) -> str:
        """Who speaks now: the visitor, or whoever may answer what waits."""
        return _("you") if self._pending is None else str(self.judges[self._pending["approver"]].actor)

    def _answer(self, line: str) -> None:
        if line.startswith("/"):
            self.commands.run(line)
        elif self._pending is None:
            self.turns.say(line)
        else:
            self._decide(self._pending, line)

    def _decide(self, call: dict[str, Any], line: str) -> None:
        word, _space, reason = line.partition(" ")
        if word.lower() in YES and not reason:
            decision: dict[str, Any] = {"approve": True}
        elif word.lower().rstrip(",:") in NO:
            decision = {"approve": False, "reason": reason.strip()}
        else:
            raise UnknownCommand(_("Please answer y, or n, or n and a reason."))
        self.turns.decide(self.judges[call["approver"]], {call["id"]: {**decision, "digest": call["digest"]}})
