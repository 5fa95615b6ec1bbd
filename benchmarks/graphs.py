"""LangGraph with its PostgresSaver: the usual message channel, and delta channels."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.contestant import Taken
from project.database import POOL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.workload import Spoken


def append(messages: list[Any], written: Sequence[Any]) -> list[Any]:
    """The cheapest reducer that a delta channel allows."""
    return messages + [message for batch in written for message in batch]


class Full(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(append)]


class Graph:
    """A graph of two nodes, agent and tools. Its saves are the saver's ``put`` and ``put_writes``.

    LangGraph at its fastest: on one connection that it keeps for itself, in the thread that calls.
    """

    saving, reading = ("put", "put_writes"), ("get_tuple", "get_delta_channel_history")

    def __init__(self, name: str, address: str, state: Any) -> None:
        self.name = name
        self.address = address
        self.state = state
        self.saves = self.work = self.reads = 0.0
        self.commits = self.number = 0
        self.spoken: Spoken | None = None
        self.graph: Any = None
        self._stack = AsyncExitStack()

    async def begin(self, key: str) -> None:
        if self.graph is None:
            saver = await self._saver()
            for what, methods in (("saves", self.saving), ("reads", self.reading)):
                for method in methods:
                    setattr(saver, method, self._timed(what, getattr(saver, method)))
            self.graph = self._build().compile(checkpointer=saver)
        self.number = 0
        self.config: Any = {"configurable": {"thread_id": key}}

    async def _saver(self) -> Any:
        saver = self._stack.enter_context(PostgresSaver.from_conn_string(self.address))
        saver.setup()
        return saver

    def _timed(self, what: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self._watched(what):
                return method(*args, **kwargs)

        return timed

    @contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        started, worked = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.perf_counter() - started)
            if what == "saves":
                self.work += time.thread_time() - worked
                self.commits += 1

    def _build(self) -> Any:
        graph = StateGraph(self.state)
        graph.add_node("agent", self._agent)
        graph.add_node("tools", self._tools)
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", _next, ["tools", END])
        graph.add_edge("tools", "agent")
        return graph

    def _agent(self, state: Any) -> Any:
        assert self.spoken is not None
        number = f"{self.number}"
        if isinstance(state["messages"][-1], HumanMessage):
            call = {"id": f"call-{number}", "name": "lookup", "args": self.spoken.arguments}
            return {"messages": [AIMessage("", id=f"asked-{number}", tool_calls=[call])]}
        return {"messages": [AIMessage(self.spoken.answer, id=f"answer-{number}")]}

    def _tools(self, state: Any) -> Any:
        assert self.spoken is not None
        call = state["messages"][-1].tool_calls[0]["id"]
        content = str(self.spoken.result)
        return {"messages": [ToolMessage(content, id=f"result-{self.number}", tool_call_id=call)]}

    async def turn(self, spoken: Spoken) -> Taken:
        self.spoken = spoken
        self.number += 1
        self.saves = self.work = self.reads = 0.0
        self.commits = 0
        message = HumanMessage(spoken.question, id=f"question-{self.number}")
        started = time.perf_counter()
        await self._invoke({"messages": [message]})
        whole = time.perf_counter() - started
        return Taken(self.saves, self.work, whole, self.reads, self.commits)

    async def _invoke(self, said: Any) -> None:
        # "sync": each step is saved before the next one begins, as ours is
        self.graph.invoke(said, self.config, durability="sync")

    async def read(self) -> int:
        return len(self.graph.get_state(self.config).values["messages"])

    async def history(self) -> int:
        return len(list(self.graph.get_state_history(self.config, limit=20)))

    async def close(self) -> None:
        await self._stack.aclose()


class PooledGraph(Graph):
    """The same graph as a site on an event loop would use it: with a pool of connections, which checks them."""

    saving, reading = ("aput", "aput_writes"), ("aget_tuple", "aget_delta_channel_history")

    async def _saver(self) -> Any:
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool: Any = AsyncConnectionPool(
            self.address, kwargs=options, open=False, check=AsyncConnectionPool.check_connection, **POOL
        )
        saver = AsyncPostgresSaver(await self._stack.enter_async_context(pool))
        await saver.setup()
        return saver

    def _timed(self, what: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def timed(*args: Any, **kwargs: Any) -> Any:
            with self._watched(what):
                return await method(*args, **kwargs)

        return timed

    async def _invoke(self, said: Any) -> None:
        await self.graph.ainvoke(said, self.config, durability="sync")

    async def read(self) -> int:
        return len((await self.graph.aget_state(self.config)).values["messages"])

    async def history(self) -> int:
        return len([each async for each in self.graph.aget_state_history(self.config, limit=20)])


def _next(state: Any) -> str:
    return "tools" if state["messages"][-1].tool_calls else END
