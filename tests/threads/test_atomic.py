"""Atomic tools: their writes and their result are one commit."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection, transaction

from criogen_threads.agents import ToolContext, ToolError, tool
from criogen_threads.backends.base import ModelAnswer
from criogen_threads.engine import lease as leases
from criogen_threads.engine.journal import saves, turns
from criogen_threads.engine.journal.atomic import atomic_result
from criogen_threads.engine.planning import Planner
from criogen_threads.engine.transcript import TOOL_FAILED
from criogen_threads.ids import new_id
from criogen_threads.models import Message, Thread, ToolCall
from project.desk.models import CallBack, Order
from tests.support import an_agent, call, die, in_db, refused, results

pytestmark = pytest.mark.django_db(transaction=True)


@tool(atomic=True)
def book(phone: str, outcome: str = "well") -> str:
    """Book a call-back."""
    CallBack.objects.create(phone=phone, when="now")
    if outcome == "tool_error":
        raise ToolError("the line is busy")
    if outcome == "accident":
        raise RuntimeError("oops")
    if outcome == "exit":
        raise SystemExit
    if outcome == "not_json":
        return object()  # type: ignore[return-value]
    if outcome == "swallowed":
        try:
            with transaction.atomic():
                get_user_model().objects.create(username="twice")
                get_user_model().objects.create(username="twice")
        except IntegrityError:
            pass
    if outcome == "rollback":
        transaction.set_rollback(True)
    if outcome == "deferred":
        CallBack.objects.update(order_id=10**6)
    return f"booked {phone}"


def _chat(*calls: Any) -> Any:
    return an_agent(list(calls), "done", tools=[book]).thread("one")


def _phones() -> list[str]:
    return list(CallBack.objects.order_by("pk").values_list("phone", flat=True))


async def test_an_atomic_tool_s_writes_and_result_are_there_together() -> None:
    reply = await _chat(call("book", phone="1")).send("a")
    assert results(reply.messages) == ["booked 1"]
    assert await in_db(_phones) == ["1"]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("tool_error", "the line is busy"),
        ("accident", TOOL_FAILED),
        ("exit", TOOL_FAILED),
        ("not_json", "not text or JSON"),
        ("rollback", TOOL_FAILED),
        ("deferred", TOOL_FAILED),
    ],
)
async def test_an_atomic_tool_that_fails_leaves_none_of_its_writes(outcome: str, told: str) -> None:
    reply = await _chat(call("book", phone="1", outcome=outcome)).send("a")
    assert reply.text == "done"
    [result] = [m["content"][0]["tool_result"] for m in reply.messages if m["role"] == "tool"]
    assert result["is_error"] is True
    assert told in result["content"]
    assert await in_db(_phones) == []


async def test_an_error_that_the_tool_handled_in_a_savepoint_of_its_own_hurts_nothing() -> None:
    reply = await _chat(call("book", phone="1", outcome="swallowed")).send("a")
    assert results(reply.messages) == ["booked 1"]
    assert await in_db(_phones) == ["1"]


async def test_a_database_error_swallowed_without_a_savepoint_is_a_tool_error() -> None:
    @tool(atomic=True)
    def careless() -> str:
        CallBack.objects.create(phone="1", when="now")
        try:
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO desk_callback (no_such_column) VALUES (1)")
        except Exception:
            connection.needs_rollback = True
        return "all is well"

    reply = await an_agent([call("careless")], "done", tools=[careless]).thread("one").send("a")
    assert results(reply.messages) == [TOOL_FAILED]
    assert await in_db(_phones) == []


async def test_atomic_calls_of_a_batch_run_one_after_the_other_in_their_order() -> None:
    seen: list[Any] = []

    @tool(atomic=True)
    def step(n: int) -> int:
        seen.append(("in", n))
        Order.objects.create(number=str(n), customer="a", item="b", total=1)
        seen.append(("out", n))
        return Order.objects.count()

    reply = await an_agent([call("step", n=n) for n in range(4)], "done", tools=[step]).thread("one").send("a")
    assert seen == [(side, n) for n in range(4) for side in ("in", "out")]
    assert results(reply.messages) == [1, 2, 3, 4]


async def test_an_atomic_call_is_never_marked_running_and_a_crash_leaves_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statuses: list[str] = []

    @tool(atomic=True)
    def act(context: ToolContext) -> str:
        statuses.append(ToolCall.objects.get(pk=context.call_id).status)
        CallBack.objects.create(phone="1", when="now")
        return "acted"

    chat = an_agent([call("act")], "done", tools=[act]).thread("one")

    def crash(*_: Any, **__: Any) -> Any:  # the process dies after the tool, before the commit
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(saves, "append_results", crash)
        with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
            await in_db(_interrupted, chat)
    await die()
    assert await in_db(_phones) == []
    assert [row.status for row in await in_db(lambda: list(ToolCall.objects.all()))] == ["ready"]
    reply = await chat.retry()
    assert reply.text == "done"
    assert await in_db(_phones) == ["1"]
    assert statuses == ["ready", "ready"]


def _interrupted(chat: Any) -> None:
    """Run a turn up to its atomic tool by hand, so that an interrupt hits no event loop."""
    turn = turns.Turn(chat.id, chat.agent.name, [{"text": "a"}])
    lease = turns.begin(turn, leases.current().ensure())
    assert isinstance(lease, turns.takes.Lease)
    answer = ModelAnswer([{"tool_call": {"id": "c", "name": "act", "arguments": {}}}])
    message_id = new_id()
    planner = Planner(chat.agent, lease, None)
    planned = planner.plan_answer(answer, message_id, 1)
    saves.answer(lease, answer, planned, {}, finishes=False, message_id=message_id, checkpoint_id=new_id())
    row = planned[0].call
    act = chat.agent.tools["act"]

    def run_tool() -> saves.Result:
        act.invoke(planner.context(row), {})
        return saves.Result(row, {"tool_result": {"id": "c", "name": "act", "content": "x", "is_error": False}}, "done")

    atomic_result(lease, run_tool, lambda error: pytest.fail(repr(error)), new_id())


async def test_nothing_of_an_atomic_tool_is_kept_when_the_thread_was_taken_meanwhile() -> None:
    @tool(atomic=True)
    def act(context: ToolContext) -> str:
        CallBack.objects.create(phone="1", when="now")
        # as if another process had taken the thread while this one slept
        Thread.objects.filter(pk=context.thread_id).update(fence=99)
        return "acted"

    chat = an_agent([call("act")], "done", tools=[act]).thread("one")
    with refused("lease_lost"):
        await chat.send("a")
    assert await in_db(_phones) == []
    assert await in_db(Message.objects.filter(role="tool").count) == 0


async def test_the_hooks_of_an_atomic_tool_run_after_its_commit_and_may_fail() -> None:
    seen: list[int] = []

    @tool(atomic=True)
    def act() -> str:
        CallBack.objects.create(phone="1", when="now")
        transaction.on_commit(lambda: seen.append(CallBack.objects.count()))
        transaction.on_commit(lambda: 1 / 0)
        return "acted"

    reply = await an_agent([call("act")], "done", tools=[act]).thread("one").send("a")
    assert results(reply.messages) == ["acted"]
    assert seen == [1]
    assert await in_db(_phones) == ["1"]


async def test_retries_of_an_atomic_tool_undo_the_try_before() -> None:
    tries: list[int] = []

    @tool(atomic=True, retries=2)
    def act() -> str:
        tries.append(1)
        CallBack.objects.create(phone=str(len(tries)), when="now")
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return "acted"

    await an_agent([call("act")], "done", tools=[act]).thread("one").send("a")
    assert await in_db(_phones) == ["3"]


async def test_an_atomic_tool_beside_a_plain_one_and_behind_an_approval() -> None:
    @tool
    async def look() -> str:
        return "seen"

    @tool(atomic=True, approval="staff")
    def pay(phone: str) -> str:
        CallBack.objects.create(phone=phone, when="now")
        return "paid"

    tools = [look, book, pay]
    chat = an_agent([call("look"), call("book", phone="1"), call("pay", phone="2")], "done", tools=tools).thread("one")
    assert (await chat.send("a")).status == "suspended"
    assert await in_db(_phones) == ["1"]
    assert (await chat.approve()).status == "completed"
    assert await in_db(_phones) == ["1", "2"]
