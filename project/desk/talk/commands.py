"""The words that begin with a slash."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from criogen_threads.errors import CheckpointNotFoundError, PermissionDeniedError
from project.desk.talk.screen import arguments_line, as_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from criogen_threads.threads import ThreadHandle
    from project.desk.talk.screen import Screen
    from project.desk.talk.turns import Turns

HELP = {
    "/history": gettext_lazy("the checkpoints of this conversation, newest first"),
    "/rewind N": gettext_lazy("go on from checkpoint N (or an id)"),
    "/retry": gettext_lazy("continue a turn that was stopped, cut off or failed"),
    "/messages": gettext_lazy("everything that was said"),
    "/help": gettext_lazy("this list"),
    "/quit": gettext_lazy("leave; the conversation stays (Ctrl-D does the same)"),
}
HISTORY_ROWS = 20
REWIND_ROWS = 10_000
EXCERPT = 60


class UnknownCommand(Exception):
    """There is no such command, or it lacks what it needs; the text says so."""


class Commands:
    """What each of them does."""

    def __init__(self, visitor: ThreadHandle, staff: ThreadHandle, turns: Turns, screen: Screen) -> None:
        self.visitor = visitor
        self.staff = staff
        self.turns = turns
        self.screen = screen

    def run(self, line: str) -> None:
        """Do what a line says.

        Raises:
            UnknownCommand: It cannot be understood.
            CriogenError: As the calls of a handle.
        """
        name, _space, rest = line.partition(" ")
        match name, rest.strip():
            case "/help", "":
                self.help()
            case "/history", "":
                self.history()
            case "/messages", "":
                self.messages()
            case "/retry", "":
                self.turns.retry()
            case "/rewind", where if where:
                self.rewind(where)
            case _:
                raise UnknownCommand(_("%(line)s? /help lists what there is.") % {"line": line})

    def help(self) -> None:
        for command, text in HELP.items():
            self.screen.line(f"  {command:<10} {text}")

    def history(self) -> None:
        rows = self.visitor.history_sync(HISTORY_ROWS)
        if not rows:
            self.screen.quiet(_("Nothing was said yet."))
        words = Words(self.visitor.messages_sync())
        for row in rows:
            moment = datetime.fromtimestamp(row["created_at_ms"] / 1000, UTC).astimezone()
            facts = f"{row['version']:>4}  {moment:%H:%M:%S}  {row['source']:<8} {row['status']:<12}"
            self.screen.line(f"{facts} {words.at(row)}".rstrip())

    def rewind(self, where: str) -> None:
        target = self._checkpoint(where)
        left = self.visitor.history_sync(1)
        head = self._rewind(target)
        self.screen.quiet(
            _("The conversation goes on from checkpoint %(old)s, now also %(new)s. /rewind %(left)s undoes that.")
            % {"old": where, "new": head["version"], "left": left[0]["id"]}
        )
        if head["status"] in ("in_progress", "failed"):
            self.screen.quiet(_("It stands in the middle of a turn: /retry continues it; or say something else."))

    def _rewind(self, checkpoint: str) -> dict[str, Any]:
        """As the visitor; behind calls that changed something only staff may go back."""
        try:
            return self.visitor.rewind_sync(checkpoint)
        except PermissionDeniedError as refused:
            head = self.staff.rewind_sync(checkpoint)
            tools = ", ".join(refused.details.get("tools", []))
            self.screen.quiet(
                _("%(who)s goes back, since the visitor may not: what these tools did stays done: %(tools)s.")
                % {"who": self.staff.actor, "tools": tools}
            )
            return head

    def _checkpoint(self, where: str) -> str:
        """The id that a person means: a number of the history, or the id itself."""
        if not where.isdecimal():
            return where
        for row in self.visitor.history_sync(REWIND_ROWS):
            if row["version"] == int(where):
                return str(row["id"])
        raise CheckpointNotFoundError

    def messages(self) -> None:
        messages = self.visitor.messages_sync()
        if not messages:
            self.screen.quiet(_("Nothing was said yet."))
        for message in messages:
            for block in message["content"]:
                self._block(message["role"], block)

    def _block(self, role: str, block: Mapping[str, Any]) -> None:
        if "text" in block:
            self.screen.label(_("you") if role == "user" else _("desk"))
            self.screen.piece(block["text"] + "\n")
        elif "tool_call" in block:
            call = block["tool_call"]
            self.screen.quiet(f"{call['name']}({arguments_line(call['arguments'])})", "·")
        elif "tool_result" in block:
            result = block["tool_result"]
            mark = "✗" if result["is_error"] else "✓"
            self.screen.quiet(f"{result['name']} → {as_plain(result['content'])}", mark)


class Words:
    """What was said at a checkpoint, in a few words: the question where a turn begins, the answer where it ends."""

    def __init__(self, messages: Iterable[Mapping[str, Any]]) -> None:
        self.said: dict[tuple[str, str], str] = {}
        for message in messages:
            text = " ".join(block["text"] for block in message["content"] if "text" in block)
            if text:
                self.said[message["run_id"], message["role"]] = " ".join(text.split())

    def at(self, checkpoint: Mapping[str, Any]) -> str:
        role = "user" if checkpoint["source"] == "input" else "assistant"
        if role == "assistant" and checkpoint["status"] != "completed":
            return ""
        text = self.said.get((checkpoint["run_id"], role), "")
        return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"
