"""A turn with everything in it, on a database that breaks somewhere in it."""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from criogen_threads.agents import Tool
from criogen_threads.models import ToolCall
from criogen_threads.signals import run_finished
from project.desk.models import CallBack
from tests.support import an_agent, call, in_db, is_valid

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from criogen_threads.threads import ThreadHandle
    from tests.database.conftest import Breakable


class Turn:
    """Two questions to the model, a plain and an atomic tool; ``during`` says what happens at which place."""

    def __init__(self, **during: Callable[[], Any]) -> None:
        self.during = during
        self.looked = 0
        self.finished: list[str] = []
        self._hears = lambda status, **_: self.finished.append(status)
        run_finished.connect(self._hears)
        tools = [Tool(self.look), Tool(self.book, atomic=True)]
        agent = an_agent([call("look"), call("book")], "Done", "Still here", tools=tools)
        script = agent.backend.respond  # type: ignore[attr-defined]

        async def respond(messages: Any, definitions: Any) -> Any:
            happening = self._reach("asked_again" if len(messages) > 1 else "asked")
            if inspect.isawaitable(happening):
                await happening
            return script(messages, definitions)

        agent.backend.respond = respond  # type: ignore[attr-defined]
        self.chat: ThreadHandle = agent.thread("t")

    def look(self) -> str:
        self.looked += 1
        self._reach("looking")
        return "seen"

    def book(self) -> str:
        CallBack.objects.create(phone="1", when="now")
        self._reach("booking")
        return "booked"

    def _reach(self, place: str) -> Any:
        """Let it happen, once."""
        happening = self.during.pop(place, None)
        return happening and happening()

    async def went_well(self) -> None:
        """All of it is there, all of it once, and the thread goes on."""
        assert not self.during, "it did not come so far"
        messages = await self.chat.messages()
        assert is_valid(messages)
        assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "assistant"]
        said = sorted(str(m["content"][0]["tool_result"]["content"]) for m in messages if m["role"] == "tool")
        assert said == ["booked", "seen"]
        assert await in_db(CallBack.objects.count) == 1
        assert await in_db(lambda: sorted(ToolCall.objects.values_list("status", flat=True))) == ["done", "done"]
        versions = [checkpoint["version"] for checkpoint in await self.chat.history(100)]
        assert versions == list(range(len(versions), 0, -1))
        events = await self.chat.get_events()
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        ends = Counter(event["type"] for event in events)
        assert (ends["tool_complete"], ends["run_complete"], ends["tool_error"]) == (2, 1, 0)
        assert self.finished[-1:] == ["completed"]
        assert (await self.chat.send("And now?")).text == "Still here"


class Saboteur:
    """Breaks one of the commits of a turn: the connection dies before it, or before its answer.

    Args:
        which: The commit, counted from 1; 0 is none.
        when: "before" or "after".
        then: What else happens before the write is repeated.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        server: Breakable,
        which: int = 0,
        when: str = "",
        then: Callable[[], Any] | None = None,
    ) -> None:
        self.commits = 0
        self.has_broken = False
        saboteur, commit = self, BaseDatabaseWrapper._commit  # type: ignore[attr-defined]

        def committing(connection: BaseDatabaseWrapper) -> Any:
            if threading.current_thread().name == "criogen-beat":
                return commit(connection)
            saboteur.commits += 1
            broken = saboteur.commits == which
            saboteur.has_broken |= broken
            if broken and when == "before":
                server.terminate()
            result = commit(connection)
            if broken and when == "after":
                server.terminate()
                if then is not None:
                    elsewhere = threading.Thread(target=then)
                    elsewhere.start()
                    elsewhere.join(10)
                raise OperationalError("server closed the connection unexpectedly")
            return result

        monkeypatch.setattr(BaseDatabaseWrapper, "_commit", committing)
