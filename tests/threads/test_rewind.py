"""Rewinds in every situation of a thread."""

from __future__ import annotations

import asyncio

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.models import Thread, ToolCall
from tests.support import Gate, Heard, an_agent, call, die, gated, in_db, is_valid, refused, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


class Counted:
    """Two tools, one of which needs an approval, and how often they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool
        def look(n: int) -> str:
            self.ran.append(f"look {n}")
            return f"seen {n}, time {len(self.ran)}"

        @tool(approval="staff")
        def refund() -> str:
            self.ran.append("refund")
            return "refunded"

        self.tools = [look, refund]


async def test_rewind_to_the_middle_of_a_run_and_retry_makes_a_new_run_that_reuses_no_later_result() -> None:
    counted = Counted()
    model = Heard([call("look", n=1), call("look", n=2)], "done")
    chat = an_agent(model=model, tools=counted.tools).thread("one")
    first = await chat.send("a")
    answered = next(c for c in await chat.history() if c["step"] == 1 and c["version"] == 2)
    await chat.rewind(answered["id"])
    assert await chat.get_current_run() is None
    assert texts(await chat.messages()) == ["user: a", "assistant: look() look()"]
    reply = await chat.retry()
    assert reply.run_id != first.run_id
    assert sorted(counted.ran) == ["look 1", "look 1", "look 2", "look 2"]
    assert is_valid(await chat.messages())
    assert len(model.given) == 3  # the answer that asked for the calls was not asked for again


async def test_rewind_to_the_middle_of_a_batch_keeps_the_results_that_came_before() -> None:
    counted = Counted()
    chat = an_agent([call("look", n=1), call("look", n=2)], "done", tools=counted.tools).thread("one")
    await chat.send("a")
    one_result = next(c for c in await chat.history() if c["version"] == 3)
    await chat.rewind(one_result["id"])
    [kept] = results(await chat.messages())
    await chat.retry()
    assert len(counted.ran) == 3
    assert kept in results(await chat.messages())
    assert is_valid(await chat.messages())


async def test_rewind_to_the_middle_of_a_run_and_send_closes_the_open_calls_first() -> None:
    counted = Counted()
    model = Heard([call("look", n=1)], "done", "next")
    chat = an_agent(model=model, tools=counted.tools).thread("one")
    await chat.send("a")
    await chat.rewind((await chat.history())[2]["id"])
    reply = await chat.send("b")
    assert reply.text == "done"
    assert is_valid(model.given[-1])
    assert "may have taken effect" in results(model.given[-1])[0]  # it had run, on the branch that was left
    assert counted.ran == ["look 1"]


async def test_f29_rewind_to_a_suspended_checkpoint_asks_again_and_older_answers_do_not_count() -> None:
    counted = Counted()
    chat = an_agent([call("refund")], "done", "again", tools=counted.tools).thread("one")
    asked = await chat.send("a")
    await chat.approve()
    suspended = next(c for c in await chat.history() if c["status"] == "suspended")
    head = await chat.rewind(suspended["id"])
    assert (head["status"], head["source"]) == ("suspended", "fork")
    run = await chat.get_current_run()
    assert run is not None
    assert (run["status"], run["forked_from"]) == ("requires_action", asked.run_id)
    [pending] = run["required_action"]
    assert pending["id"] != asked.pending[0]["id"]
    with refused("thread_suspended"):
        await chat.send("b")
    with refused("resume_invalid"):
        await chat.decide({asked.pending[0]["id"]: True})
    reply = await chat.reject("not twice")
    assert reply.run_id == run["id"]
    assert counted.ran == ["refund"]
    assert is_valid(await chat.messages())


async def test_rewind_to_a_suspended_checkpoint_reopens_only_what_waited_there() -> None:
    counted = Counted()
    chat = an_agent([call("look", n=1), call("refund"), call("refund")], "done", tools=counted.tools).thread("one")
    first, _ = (await chat.send("a")).pending
    await chat.decide({first["id"]: True})
    await chat.approve()
    suspended = next(c for c in await chat.history(50) if c["status"] == "suspended")
    await chat.rewind(suspended["id"])
    run = await chat.get_current_run()
    assert run is not None
    assert [pending["name"] for pending in run["required_action"]] == ["refund", "refund"]
    assert (await chat.approve()).status == "completed"
    assert sorted(counted.ran) == ["look 1", "refund", "refund", "refund", "refund"]


async def test_rewind_away_from_open_approvals_makes_them_void_and_closes_the_run() -> None:
    counted = Counted()
    chat = an_agent("hi", [call("refund")], "done", tools=counted.tools).thread("one")
    await chat.send("a")
    target = (await chat.history())[0]["id"]
    [pending] = (await chat.send("b")).pending
    await chat.rewind(target)
    assert (await in_db(ToolCall.objects.get)).status == "void"
    run = (await chat.runs())[-1]
    assert (run["status"], run["error_code"]) == ("failed", "abandoned")
    stored = await in_db(Thread.objects.get)
    assert (stored.status, stored.pending) == ("idle", 0)
    with refused("resume_invalid"):
        await chat.decide({pending["id"]: True})
    assert (await chat.send("c")).status == "suspended"


async def test_rewind_away_from_an_interrupted_run_closes_it() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one", "two")).thread("one")
    gate.open()
    await chat.send("a")
    target = (await chat.history())[0]["id"]
    gate.opened.clear()
    gate.reached.clear()
    task = asyncio.create_task(chat.send("b"))
    await gate.reached.wait()
    await die(task)
    await chat.rewind(target)
    run = (await chat.runs())[-1]
    assert (run["status"], run["error_code"]) == ("failed", "abandoned")
    gate.open()
    assert (await chat.send("c")).text == "two"


async def test_rewind_away_from_a_failed_run_leaves_its_own_error() -> None:
    chat = an_agent("one", ModelError("down", passing=False)).thread("one")
    await chat.send("a")
    target = (await chat.history())[0]["id"]
    with refused("model_failed"):
        await chat.send("b")
    await chat.rewind(target)
    assert [run["error_code"] for run in await chat.runs()] == ["", "model_failed"]
    with refused("resume_invalid"):
        await chat.retry()


async def test_rewind_to_a_failed_checkpoint_can_be_retried_as_a_new_run() -> None:
    failing = ModelError("down", passing=False)
    chat = an_agent(failing).thread("one")
    with refused("model_failed"):
        await chat.send("a")
    failed = (await chat.history())[0]["id"]
    chat = an_agent("fine").thread("one")
    await chat.send("b")
    await chat.rewind(failed)
    reply = await chat.retry()
    assert (reply.text, len(await chat.runs())) == ("fine", 3)
    assert texts(await chat.messages()) == ["user: a", "assistant: fine"]


async def test_rewind_to_a_completed_checkpoint_leaves_nothing_to_retry() -> None:
    chat = an_agent("one", "two").thread("one")
    await chat.send("a")
    await chat.rewind((await chat.history())[0]["id"])
    with refused("resume_invalid"):
        await chat.retry()


async def test_two_rewinds_in_a_row_and_a_rewind_to_a_fork() -> None:
    chat = an_agent("one", "two").thread("one")
    await chat.send("a")
    first = (await chat.history())[0]["id"]
    await chat.send("b")
    one = await chat.rewind(first)
    two = await chat.rewind(one["id"])
    assert [c["version"] for c in await chat.history()] == [6, 5, 2, 1]
    assert two["parent_id"] == one["id"]
    assert texts(await chat.messages()) == ["user: a", "assistant: one"]
    assert (await chat.send("c")).text == "two"


async def test_rewind_while_a_run_is_live_takes_the_thread_as_on_busy_says() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    target = (await chat.history())[0]["id"]
    with refused("thread_busy"):
        await chat.rewind(target, on_busy="reject")
    with refused("thread_busy"):
        await chat.rewind(target, timeout=0.1)
    waiting = asyncio.create_task(chat.rewind(target))
    await asyncio.sleep(0)
    gate.open()
    assert (await task).text == "one"
    assert (await waiting)["source"] == "fork"


async def test_rewind_tells_a_fork_event() -> None:
    chat = an_agent("one").thread("one")
    await chat.send("a")
    target = (await chat.history())[1]["id"]
    head = await chat.rewind(target)
    [event] = await chat.get_events(type="checkpoint_fork")
    assert event["details"] == {"from": target, "to": head["id"]}
