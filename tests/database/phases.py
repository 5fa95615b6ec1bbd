"""Every phase of a turn, found while it runs: around each commit, inside the model, inside every kind of tool."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from django.db.backends.base.base import BaseDatabaseWrapper

from criogen_threads.agents import Agent, Tool, ToolContext
from criogen_threads.models import Checkpoint, Event, ToolCall
from project.desk.models import CallBack
from tests.support import an_agent, call, in_db, is_valid, results

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from criogen_threads.threads import ThreadHandle

NAMES = ("in_thread", "in_task", "book", "pay", "pay_book")
ATOMIC = ("book", "pay_book")


class Phases:
    """Hears of every phase that a turn comes by. At one of them, ``strike`` happens.

    Args:
        at: The phase; None for none.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, at: str | None = None, strike: Callable[[], None] | None = None
    ) -> None:
        self.at = at
        self.strike = strike
        self.seen: list[str] = []
        self._times: Counter[str] = Counter()
        self._one_at_a_time = threading.Lock()
        commit = BaseDatabaseWrapper._commit  # type: ignore[attr-defined]

        def committing(connection: BaseDatabaseWrapper) -> Any:
            if threading.current_thread().name == "criogen-beat":
                return commit(connection)
            self.reach("before a commit")
            result = commit(connection)
            self.reach("after a commit")
            return result

        monkeypatch.setattr(BaseDatabaseWrapper, "_commit", committing)

    def reach(self, what: str) -> None:
        with self._one_at_a_time:
            self._times[what] += 1
            name = f"{what} #{self._times[what]}"
            self.seen.append(name)
            struck = name == self.at
        if struck and self.strike is not None:
            self.strike()


class Errand:
    """A turn with a tool of every kind, two of which a person approves."""

    def __init__(self, phases: Phases, key: str) -> None:
        self.phases = phases
        self.ran: Counter[str] = Counter()
        self.chat: ThreadHandle = self._agent().thread(key)

    def _agent(self) -> Agent:
        def work(name: str, context: ToolContext) -> str:
            self.phases.reach(f"in {name}")
            self.ran[name] += 1
            if name in ATOMIC:
                CallBack.objects.create(phone=name, when="now", note=context.thread)
                self.phases.reach(f"in {name}, its row written")
            return name

        def sync(name: str) -> Any:
            return lambda context: work(name, context)

        async def in_task(context: ToolContext) -> str:
            return work("in_task", context)

        def kind(name: str, **options: Any) -> Tool:
            return Tool(sync(name), name, f"The tool {name}.", **options)

        tools = [
            kind("in_thread"), Tool(in_task, description="The tool in_task."), kind("book", atomic=True),
            kind("pay", approval="owner"), kind("pay_book", approval="owner", atomic=True),
        ]  # fmt: skip
        agent = an_agent(list(map(call, NAMES)), "Done", "Still here", tools=tools)
        script = agent.backend.respond  # type: ignore[attr-defined]

        def respond(messages: Any, definitions: Any) -> Any:
            self.phases.reach("in the model")
            return script(messages, definitions)

        agent.backend.respond = respond  # type: ignore[attr-defined]
        return agent

    async def run(self) -> None:
        """All of it is there, all of it once."""
        reply = await self.chat.send("Go", client_id="one")
        assert (reply.status, len(reply.pending)) == ("suspended", 2)
        assert (await self.chat.approve()).text == "Done"
        messages = await self.chat.messages()
        assert is_valid(messages)
        assert sorted(results(messages)) == sorted(NAMES)
        assert all(self.ran[name] == 1 for name in NAMES if name not in ATOMIC), self.ran
        await in_db(self._check_rows)
        assert (await self.chat.send("And now?")).text == "Still here"

    def _check_rows(self) -> None:
        own = {"thread__key": self.chat.id}
        assert sorted(CallBack.objects.filter(note=self.chat.id).values_list("phone", flat=True)) == sorted(ATOMIC)
        assert set(ToolCall.objects.filter(**own).values_list("status", flat=True)) == {"done"}
        ends = Counter(Event.objects.filter(**own).values_list("type", flat=True))
        assert (ends["tool_complete"], ends["run_complete"], ends["tool_error"]) == (len(NAMES), 1, 0)
        versions = list(Checkpoint.objects.filter(**own).order_by("version").values_list("version", flat=True))
        assert versions == list(range(1, len(versions) + 1))
