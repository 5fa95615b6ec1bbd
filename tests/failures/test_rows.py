"""Deleting leaves no row, and a long conversation costs no more a turn than a short one."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db.backends.signals import connection_created

from criogen_threads.agents import tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from tests.support import Gate, an_agent, call, in_db

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = (Thread, Run, Checkpoint, Message, ToolCall, Event)


def _rows(key: str) -> dict[str, int]:
    own = Thread.objects.filter(key=key).values_list("pk", flat=True)
    counts = {model.__name__: model._base_manager.filter(thread__in=own).count() for model in MODELS[1:]}
    return {"Thread": len(own), **counts}


async def test_f35_delete_leaves_no_row_of_anything_that_a_thread_can_have() -> None:
    @tool(approval="staff")
    def pay() -> str:
        return "paid"

    def respond(messages: Any, tools: Any) -> Any:
        return [call("pay")] if messages[-1]["role"] == "user" else "done"

    agent = an_agent(model=ScriptedModel(respond), tools=[pay])
    for key in ("one", "other"):
        chat = agent.thread(key)
        await chat.send("a", colour="red")
        await chat.approve()
        await chat.rewind((await chat.history())[1]["id"])  # rows beside the history
        await chat.send("b")
        await chat.cancel()
        await chat.send("c")  # open approvals, and a failed run
        await chat.create_event("note", {"n": 1})
    before = await in_db(_rows, "other")
    assert all(before.values())
    assert await agent.thread("one").delete() is True
    assert sum((await in_db(lambda: {model: model._base_manager.count() for model in MODELS})).values()) == sum(
        before.values()
    )
    assert await in_db(_rows, "other") == before


async def test_f35_the_rows_of_those_who_wait_go_too() -> None:
    gate = Gate()

    async def respond(messages: Any, tools: Any) -> Any:
        await gate.wait()
        return "done"

    chat = an_agent(model=ScriptedModel(respond)).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    await chat.submit("in line")
    assert await chat.delete(on_busy="interrupt") is True
    await asyncio.gather(first, return_exceptions=True)
    found = await in_db(lambda: [model.__name__ for model in MODELS if model._base_manager.exists()])
    assert found == []


def _stored(run_id: Any) -> tuple[dict[str, int], int]:
    """Of one turn: its rows, and the characters of everything that is stored in them."""
    rows = {model.__name__: list(model._base_manager.filter(run=run_id).values()) for model in MODELS[2:]}
    rows["Run"] = list(Run.objects.filter(pk=run_id).values())
    size = sum(len(repr(value)) for found in rows.values() for row in found for value in row.values())
    return {name: len(found) for name, found in rows.items()}, size


async def test_f36_what_a_turn_stores_does_not_grow_with_the_conversation() -> None:
    @tool
    async def look_up() -> str:
        return "x" * 1000

    def respond(messages: Any, tools: Any) -> Any:
        return [call("look_up")] if messages[-1]["role"] == "user" else "y" * 500

    chat = an_agent(model=ScriptedModel(respond, chunk=500), tools=[look_up]).thread("one")
    sizes = []
    for number in range(40):
        reply = await chat.send(f"message {number:02}", colour="red")
        counts, size = await in_db(_stored, reply.run_id)
        assert counts == {"Run": 1, "Checkpoint": 4, "Message": 4, "ToolCall": 1, "Event": counts["Event"]}
        sizes.append((counts["Event"], size))
    assert len({events for events, _ in sizes}) == 1
    first, last = sum(size for _, size in sizes[:10]), sum(size for _, size in sizes[-10:])
    assert last < first * 1.02


Sent = list[tuple[str, int]]
"""Statements, each with the size of its values."""


@contextmanager
def listening(sent: Sent) -> Iterator[None]:
    """Note what the threads that read and save send to the database."""
    listened_to: list[BaseDatabaseWrapper] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        values = (len(value) if isinstance(value, str | bytes) else 8 for value in params or ())
        sent.append((sql, sum(values)))
        return execute(sql, params, many, context)

    def install(connection: BaseDatabaseWrapper, **_: Any) -> None:
        if threading.current_thread().name.startswith("criogen-database") and connection not in listened_to:
            connection.execute_wrappers.append(note)
            listened_to.append(connection)

    connection_created.connect(install)
    try:
        yield
    finally:
        connection_created.disconnect(install)
        for connection in listened_to:
            connection.execute_wrappers.remove(note)


async def test_f36_a_turn_sends_the_same_statements_with_as_much_in_them_however_long_the_conversation_is() -> None:
    @tool
    async def look_up() -> str:
        return "x" * 1000

    def respond(messages: Any, tools: Any) -> Any:
        return [call("look_up")] if messages[-1]["role"] == "user" else "y" * 500

    chat = an_agent(model=ScriptedModel(respond, chunk=500), tools=[look_up]).thread("one")
    turns: list[Sent] = []
    sent: Sent = []
    with listening(sent):
        for number in range(150):
            await chat.send(f"message {number:03}", colour="red")
            turns.append(sent[:])
            sent.clear()
    early, late = turns[4], turns[-1]
    assert len(early) >= 12  # it is heard
    assert [sql for sql, _ in late] == [sql for sql, _ in early]
    assert sum(size for _, size in late) <= 1.02 * sum(size for _, size in early)
