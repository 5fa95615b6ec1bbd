"""Runs that did not finish: interrupted ones, failed ones, and what retry and send make of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import transcript
from criogen_threads.models import Run, Thread
from tests.support import Gate, Heard, an_agent, call, die, gated, in_db, is_valid, refused, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


class Flaky(ScriptedModel):
    """Fails until ``well`` is set, then follows its script."""

    def __init__(self, *answers: Any) -> None:
        self.well = False
        script = ScriptedModel.of(*answers).respond

        def respond(messages: Any, tools: Any) -> Any:
            if not self.well:
                raise ModelError("the provider is down", passing=False)
            return script(messages, tools)

        super().__init__(respond)


async def test_p15_a_dead_process_leaves_the_run_and_send_says_so_until_retry() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "answer", "next")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    await die(first)
    for _ in range(2):
        with refused("thread_interrupted"):
            await chat.send("b")
    with refused("thread_interrupted"):
        await chat.send("b", on_busy="interrupt")
    with refused("thread_interrupted"):
        await chat.submit("b")
    assert [run["status"] for run in await chat.runs()] == ["in_progress"]
    assert await in_db(lambda: Thread.objects.interrupted().count()) == 1
    gate.open()
    reply = await chat.retry()
    assert (reply.text, reply.status) == ("answer", "completed")
    assert (await chat.send("b")).text == "next"


async def test_p16_finished_tool_calls_are_not_run_again() -> None:
    gate = Gate()
    ran: list[str] = []

    @tool
    async def quick() -> str:
        ran.append("quick")
        return "quick result"

    @tool
    async def slow() -> str:
        ran.append("slow")
        await gate.wait()
        return "slow result"

    model = Heard([call("quick"), call("slow")], "done")
    chat = an_agent(model=model, tools=[quick, slow]).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    while "quick result" not in results(await chat.messages()):
        await asyncio.sleep(0.005)
    await die(first)
    gate.open()
    reply = await chat.retry()
    assert reply.text == "done"
    assert ran == ["quick", "slow", "slow"]  # the one that had started may be run again, by its on_crash
    assert is_valid(model.given[-1])
    assert results(model.given[-1]) == ["quick result", "slow result"]
    assert (await chat.runs())[0]["attempt"] == 2


async def test_p16_an_answer_that_was_saved_is_not_asked_for_again() -> None:
    gate = Gate()

    @tool
    async def slow() -> str:
        await gate.wait()
        return "result"

    model = Heard([call("slow")], "done")
    chat = an_agent(model=model, tools=[slow]).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    await die(first)
    gate.open()
    await chat.retry()
    assert len(model.given) == 2


async def test_p17_a_limit_that_is_reached_is_saved_as_failed() -> None:
    @tool
    def again() -> str:
        return "more"

    chat = an_agent(*[[call("again")]] * 5, tools=[again], max_steps=2).thread("one")
    with refused("limit_reached"):
        await chat.send("a")
    head = (await chat.history())[0]
    assert (head["status"], head["source"], head["step"]) == ("failed", "failure", 2)


async def test_p17_a_cancelled_run_is_saved_as_failed() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "x")).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    assert await chat.cancel() is True
    with refused("cancelled"):
        await task
    head = (await chat.history())[0]
    assert (head["status"], head["source"]) == ("failed", "failure")


async def test_p18_retry_continues_a_failed_run_from_the_failed_step() -> None:
    ran: list[int] = []

    @tool
    def step(n: int) -> str:
        ran.append(n)
        model.well = n != 2
        return f"step {n}"

    model = Flaky([call("step", n=1)], [call("step", n=2)], "done")
    model.well = True
    chat = an_agent(model=model, tools=[step]).thread("one")
    with refused("model_failed"):
        await chat.send("a")
    model.well = True
    reply = await chat.retry()
    assert reply.text == "done"
    assert ran == [1, 2]
    run = (await chat.runs())[0]
    assert (run["id"], run["status"], run["attempt"], run["last_error"]) == (reply.run_id, "completed", 2, None)
    assert texts(reply.messages) == [
        "user: a", "assistant: step()", "tool: step 1", "assistant: step()", "tool: step 2", "assistant: done",
    ]  # fmt: skip


async def test_p19_send_on_a_failed_thread_leaves_that_run_and_starts_a_new_turn() -> None:
    model = Flaky("answer")
    chat = an_agent(model=model).thread("one")
    with refused("model_failed"):
        await chat.send("a")
    model.well = True
    reply = await chat.send("b")
    assert texts(reply.messages) == ["user: b", "assistant: answer"]
    assert [run["status"] for run in await chat.runs()] == ["failed", "completed"]
    with refused("resume_invalid"):
        await chat.retry()


async def test_p19_calls_left_open_are_closed_and_say_whether_they_may_have_taken_effect() -> None:
    gate = Gate()

    @tool
    async def slow() -> str:
        await gate.wait()
        return "never"

    @tool(approval="staff")
    def refund() -> str:
        return "never"

    model = Heard([call("slow"), call("refund")], "fine")
    chat = an_agent(model=model, tools=[slow, refund]).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    await chat.cancel()
    with refused("cancelled"):
        await task
    assert (await chat.send("b")).text == "fine"
    assert is_valid(model.given[-1])
    assert results(model.given[-1]) == [transcript.MAY_HAVE_RUN, transcript.NOT_RUN]
    assert texts(model.given[-1])[-1] == "user: b"


async def test_p20_nothing_to_retry() -> None:
    chat = an_agent("hello").thread("one")
    with refused("resume_invalid"):
        await chat.retry()
    assert not await in_db(Thread.objects.exists)
    await chat.send("a")
    with refused("resume_invalid"):
        await chat.retry()
    assert await in_db(Run.objects.count) == 1


async def test_retry_on_a_live_run_waits_and_then_looks_again() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    with refused("thread_busy"):
        await chat.retry(timeout=0.1)
    retrying = asyncio.create_task(chat.retry())
    await asyncio.sleep(0)
    gate.open()
    assert (await first).text == "one"
    with refused("resume_invalid"):
        await retrying


async def test_two_retries_at_once_run_it_once() -> None:
    model = Flaky("done")
    chat = an_agent(model=model).thread("one")
    with refused("model_failed"):
        await chat.send("a")
    model.well = True
    outcomes = await asyncio.gather(chat.retry(), chat.retry(), return_exceptions=True)
    assert sorted(getattr(o, "code", "reply") for o in outcomes) == ["reply", "resume_invalid"]
    assert texts(await chat.messages()) == ["user: a", "assistant: done"]


async def test_a_waiting_send_leaves_when_the_thread_turns_out_interrupted() -> None:
    gate = Gate()
    chat = an_agent(model=gated(gate, "one")).thread("one")
    first = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    waiting = asyncio.create_task(chat.send("b"))
    while len(await chat.runs()) < 2:
        await asyncio.sleep(0.005)
    await die(first)
    with refused("thread_interrupted"):
        await waiting
    assert len(await chat.runs()) == 1
