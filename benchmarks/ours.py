"""criogen_threads as a site uses it: ``send`` on a handle, through Django's connection pool."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import connections
from django.db.backends.signals import connection_created

from benchmarks.contestant import Taken
from criogen_threads.agents import Agent, tool
from criogen_threads.backends.base import ModelAnswer, ModelBackend, Usage
from criogen_threads.engine import lease, pools
from criogen_threads.engine.conversation import Conversation
from criogen_threads.engine.journal.statements import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager
    from uuid import UUID

    from benchmarks.workload import Spoken
    from criogen_threads.backends.base import Delta, ModelRequest


class Stopwatch:
    """Measures the journal's writes and the loop's reads, each in the thread that does it.

    A write lasts from before it takes its connection from the pool until that is given back.
    """

    def __init__(self) -> None:
        self.saves = self.work = self.reads = 0.0
        self.commits = self.statements = 0
        self._job = threading.local()
        self._transaction = Session.transaction
        self._close = pools.close_connections
        Session.transaction = self._timed_transaction()  # type: ignore[assignment, method-assign]
        pools.close_connections = self._timed_close
        connection_created.connect(self._count)
        Conversation.read = self._timed_read()  # type: ignore[method-assign]

    def _timed_transaction(self) -> Callable[[Session], AbstractContextManager[Any]]:
        watch, transaction = self, self._transaction

        @contextmanager
        def timed(session: Session) -> Iterator[None]:
            started, worked = time.perf_counter(), time.thread_time()
            try:
                with transaction(session):
                    yield
            finally:
                watch.saves += time.perf_counter() - started
                watch.work += time.thread_time() - worked
                watch.commits += 1
                watch._job.saved = True

        return timed

    def _timed_close(self) -> None:
        started, worked = time.perf_counter(), time.thread_time()
        self._close()
        if getattr(self._job, "saved", False):
            self.saves += time.perf_counter() - started
            self.work += time.thread_time() - worked
            self._job.saved = False

    def _timed_read(self) -> Callable[[UUID | None], Conversation]:
        read = Conversation.read

        def timed(tail: UUID | None) -> Conversation:
            started = time.perf_counter()
            try:
                return read(tail)
            finally:
                self.reads += time.perf_counter() - started

        return timed

    def _count(self, connection: Any, **_: Any) -> None:
        """Count what the pool's threads execute; a connection signals each time it is taken from the pool."""
        pooled = threading.current_thread().name.startswith(("criogen-database", "criogen-tool"))
        if pooled and self._counted not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._counted)

    def _counted(self, execute: Callable[..., Any], *args: Any) -> Any:
        self.statements += 1
        return execute(*args)

    def lap(self, whole: float = 0.0) -> tuple[Taken, int]:
        """What a turn took, and its statements, since the last lap."""
        lap = Taken(self.saves, self.work, whole, self.reads, self.commits), self.statements
        self.saves = self.work = self.reads = 0.0
        self.commits = self.statements = 0
        return lap


class Script(ModelBackend):
    """A model that takes no time: it answers in one piece, and counts nothing."""

    def __init__(self, respond: Callable[[Any], list[dict[str, Any]]]) -> None:
        self.respond = respond

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelAnswer]:
        yield ModelAnswer(self.respond(request.messages), Usage(1000, 100))


class Ours:
    """One thread, one agent with one tool, a model that answers from the script."""

    def __init__(self, name: str, *, tools: bool = True) -> None:
        self.name = name
        self.tools = tools
        self.watch = Stopwatch()
        self.spoken: Spoken | None = None

        @tool
        def lookup(order: int, note: str) -> dict[str, Any]:
            """Look an order up."""
            assert self.spoken is not None
            return {**self.spoken.result, "order": order, "lines": [*self.spoken.result["lines"], note][:4]}

        self.agent = Agent("bench", model=Script(self._respond), tools=[lookup])

    async def begin(self, key: str) -> None:
        self.thread = self.agent.thread(key)

    def _respond(self, messages: Any) -> list[dict[str, Any]]:
        assert self.spoken is not None
        if self.tools and messages[-1]["role"] == "user":
            call = {"id": f"call-{len(messages)}", "name": "lookup", "arguments": self.spoken.arguments}
            return [{"tool_call": call}]
        return [{"text": self.spoken.answer}]

    async def turn(self, spoken: Spoken) -> Taken:
        self.spoken = spoken
        started = time.perf_counter()
        await self.thread.send(spoken.question)
        whole = time.perf_counter() - started
        await self._settled()
        taken, self.statements = self.watch.lap(whole)
        return taken

    async def _settled(self) -> None:
        """Until the last connection is back in its pool: that happens after the reply."""
        pool = pools.database_pool
        while pool._idle < pool._threads:  # noqa: ASYNC110 (the pool has no event for it)
            await asyncio.sleep(0.0002)

    async def plain_turns(self, spoken: list[Spoken]) -> tuple[float, float]:
        """Turns without a tool, on a thread of their own: the most statements and commits of one."""
        thread, self.thread, self.tools = self.thread, self.agent.thread("plain"), False
        counts = []
        for each in spoken:
            taken = await self.turn(each)
            counts.append((self.statements, taken.commits))
        await self.thread.delete()
        self.watch.lap()
        self.thread, self.tools = thread, True
        return max(count for count, _ in counts[1:]), max(commits for _, commits in counts[1:])

    async def read(self) -> int:
        return len(await self.thread.messages())

    async def history(self) -> int:
        return len(await self.thread.history(20))

    async def read_by_the_loop(self) -> float:
        """Microseconds a message that the loop takes to read the conversation."""
        tail = await pools.in_database(lambda: _tail(self.thread.id))

        def read() -> float:
            connections["default"].ensure_connection()
            started = time.perf_counter()
            messages = Conversation.read(tail).messages
            return (time.perf_counter() - started) * 1e6 / len(messages)

        return await pools.in_database(read)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        lease.stop(0)
        lease.forget()
        connections["default"].close_pool()  # type: ignore[attr-defined]


def _tail(key: str) -> Any:
    from criogen_threads.engine import reads

    found = reads.thread(key)
    assert found is not None
    assert found.head is not None
    return found.head.message_id
