"""One turn on the screen: the words of the desk as they come, its tools as quiet lines."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from project.desk.talk.screen import arguments_line, as_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from criogen_threads.threads import Reply, ThreadHandle
    from project.desk.talk.screen import Screen

LOOK_SECONDS = 0.1
"""Seconds between two looks at what a turn that cannot be streamed has saved."""

WAIT_SECONDS = 1.5
"""Seconds without anything until it is said why."""

SETTLE_SECONDS = 3.0
"""Seconds that a stopped run gets to be saved."""


class Turns:
    """Runs turns of one conversation and shows them."""

    def __init__(self, visitor: ThreadHandle, screen: Screen) -> None:
        self.visitor = visitor
        self.screen = screen
        self._streamed = ""  # the message whose pieces are being shown

    def say(self, text: str) -> None:
        """A turn of the visitor, its answer shown piece by piece. Ctrl-C stops it."""
        with self._stopped_by_ctrl_c(), closing(self.visitor.stream_sync(text)) as events:
            for event in events:
                self._show_live(event)

    def retry(self) -> None:
        """Continue the unfinished or failed turn."""
        self._follow(self.visitor.retry_sync)

    def decide(self, judge: ThreadHandle, decisions: dict[str, Any]) -> None:
        """Answer an approval; the turn goes on when it was the last one that waited."""
        self._follow(lambda: judge.decide_sync(decisions))

    # A turn that is streamed ---------------------------------------------------------------------------------------

    def _show_live(self, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "text_delta":
                if event["message_id"] != self._streamed:
                    self._streamed = event["message_id"]
                    self.screen.label(_("desk"))
                self.screen.piece(event["text"])
            case "discarded":
                self.screen.quiet(_("(cut off: the model is asked again)"))
            case "reply":
                self.screen.end_line()
            case "message" | "arguments_delta" | "reasoning_delta":
                pass  # the words were shown as pieces; a call is shown when it starts
            case _:
                self._show_saved(event)

    # A turn that is watched ----------------------------------------------------------------------------------------

    def _follow(self, call: Callable[[], Reply]) -> None:
        """Run a turn that gives no live events, and show what it saves meanwhile."""
        watch = Watch(self.visitor, self._show_saved, self._say_why_it_takes_long)
        with self._stopped_by_ctrl_c(), watch:
            call()

    def _show_saved(self, event: Mapping[str, Any]) -> None:
        details = event["details"]
        match event["type"]:
            case "message" if details["message"]:
                self.screen.label(_("desk"))
                self.screen.piece(details["message"] + "\n")
            case "tool_start":
                self.screen.quiet(f"{details['tool_name']}({arguments_line(details['arguments'])})", "·")
            case "tool_complete":
                self.screen.quiet(f"{details['tool_name']} → {as_plain(details['result'])}", "✓")
            case "tool_error":
                self.screen.quiet(f"{details['tool_name']} → {as_plain(details['error'])}", "✗")

    def _say_why_it_takes_long(self) -> None:
        self.screen.quiet(_("(waiting: the process that was at work counts as gone after a few seconds)"))

    # Being stopped -------------------------------------------------------------------------------------------------

    @contextmanager
    def _stopped_by_ctrl_c(self) -> Iterator[None]:
        """Ctrl-C ends the turn, which is saved, and not the program."""
        try:
            yield
        except KeyboardInterrupt:
            self._let_it_be_saved()
            self.screen.line(_("Stopped. /retry goes on with it; or say something else."))

    def _let_it_be_saved(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            run = self.visitor.get_current_run_sync()
            if run is None or run["status"] != "in_progress":
                return
            time.sleep(LOOK_SECONDS / 2)


class Watch:
    """Looks at the events of the current run while something else drives it, and shows each once."""

    def __init__(
        self, handle: ThreadHandle, show: Callable[[Mapping[str, Any]], None], nothing_yet: Callable[[], None]
    ) -> None:
        self.handle = handle
        self.show = show
        self.nothing_yet = nothing_yet
        self._seen: set[str] = set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look_often, name="demo-watch", daemon=True)

    def __enter__(self) -> None:
        self._seen = {event["id"] for event in self._events()}
        self._thread.start()

    def __exit__(self, *_exception: object) -> None:
        self._done.set()
        self._thread.join()

    def _look_often(self) -> None:
        patience = time.monotonic() + WAIT_SECONDS
        while not self._done.wait(LOOK_SECONDS):
            if self._look():
                patience = float("inf")
            elif time.monotonic() > patience:
                patience = float("inf")
                self.nothing_yet()
        self._look()

    def _look(self) -> bool:
        """Show what is new; True where there was something."""
        news = [event for event in self._events() if event["id"] not in self._seen]
        for event in news:
            self._seen.add(event["id"])
            self.show(event)
        return bool(news)

    def _events(self) -> list[dict[str, Any]]:
        run = self.handle.get_current_run_sync()
        return self.handle.get_events_sync(run=run["id"]) if run else []
