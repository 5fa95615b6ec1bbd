"""LangGraph with its PostgresSaver: the usual message channel, and delta channels."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from benchmarks.contestant import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.workload import Spoken


def append(messages: list[Any], written: Sequence[Any]) -> list[Any]:
    """The cheapest reducer that a delta channel allows."""
    return messages + [message for batch in written for message in batch]


class Full(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(append)]


class Graph:
    """A graph of two nodes, agent and tools. Its saves are the saver's ``put`` and ``put_writes``."""

    def __init__(self, name: str, address: str, state: Any) -> None:
        self.name = name
        self.saves = self.work = self.reads = 0.0
        self.commits = 0
        self.spoken: Spoken | None = None
        self._stack = ExitStack()
        saver = self._stack.enter_context(PostgresSaver.from_conn_string(address))
        saver.setup()
        for method in ("put", "put_writes"):
            setattr(saver, method, self._timed("saves", getattr(saver, method)))
        for method in ("get_tuple", "get_delta_channel_history"):
            setattr(saver, method, self._timed("reads", getattr(saver, method)))
        self.graph = self._build(state).compile(checkpointer=saver)

    async def begin(self, key: str) -> None:
        self.number = 0
        self.config: Any = {"configurable": {"thread_id": key}}

    def _timed(self, what: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started, worked = time.perf_counter(), time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                setattr(self, what, getattr(self, what) + time.perf_counter() - started)
                if what == "saves":
                    self.work += time.thread_time() - worked
                    self.commits += 1

        return timed

    def _build(self, state: Any) -> Any:
        graph = StateGraph(state)
        graph.add_node("agent", self._agent)
        graph.add_node("tools", self._tools)
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", lambda state: "tools" if state["messages"][-1].tool_calls else END)
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
        # "sync": each step is saved before the next one begins, as ours is
        self.graph.invoke({"messages": [message]}, self.config, durability="sync")
        whole = time.perf_counter() - started
        return Taken(self.saves, self.work, whole, self.reads, self.commits)

    async def read(self) -> int:
        return len(self.graph.get_state(self.config).values["messages"])

    async def history(self) -> int:
        return len(list(self.graph.get_state_history(self.config, limit=20)))

    def close(self) -> None:
        self._stack.close()
