"""Approvals: asking, answering, going on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from criogen_threads.agents import ToolContext, tool
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.models import Thread, ToolCall
from tests.support import Gate, Heard, an_agent, call, die, in_db, is_valid, refused, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


class Refunds:
    """A tool that needs an approval, and what it did."""

    def __init__(self, approval: Any = "staff", **options: Any) -> None:
        self.done: list[tuple[str, int]] = []

        @tool(approval=approval, **options)
        def refund(order: str, amount: int) -> str:
            self.done.append((order, amount))
            return f"refunded {order}"

        self.tool = refund


ONE = [call("refund", order="A1", amount=5)]
TWO = [call("refund", order="A1", amount=5), call("refund", order="B2", amount=7)]


async def test_p21_a_run_that_needs_approval_is_saved_suspended_and_holds_nothing() -> None:
    refunds = Refunds()
    chat = an_agent(ONE, "done", tools=[refunds.tool]).thread("one")
    reply = await chat.send("refund A1")
    assert reply.status == "suspended"
    [pending] = reply.pending
    assert (pending["name"], pending["arguments"]) == ("refund", {"order": "A1", "amount": 5})
    assert (pending["approver"], pending["expires_at_ms"]) == ("staff", None)
    head = (await chat.history())[0]
    assert (head["status"], head["source"]) == ("suspended", "suspend")
    run = await chat.get_current_run()
    assert run is not None
    assert (run["status"], run["required_action"]) == ("requires_action", [pending])
    stored = await in_db(Thread.objects.get)
    assert (stored.status, stored.holder, stored.pending) == ("suspended", None, 1)
    assert refunds.done == []


async def test_p22_send_raises_until_the_approval_is_answered() -> None:
    refunds = Refunds()
    chat = an_agent(ONE, "done", "next", tools=[refunds.tool]).thread("one")
    await chat.send("refund A1")
    for way in ("wait", "reject", "interrupt"):
        with refused("thread_suspended"):
            await chat.send("hello?", on_busy=way)
    with refused("thread_suspended"):
        await chat.submit("hello?")
    with refused("thread_suspended"):
        await chat.retry()
    await chat.approve()
    assert (await chat.send("hello?")).text == "next"


async def test_p23_approve_continues_the_run_and_returns_its_reply() -> None:
    refunds = Refunds()
    model = Heard(ONE, "done")
    chat = an_agent(model=model, tools=[refunds.tool]).thread("one")
    asked = await chat.send("refund A1")
    reply = await chat.approve()
    assert (reply.text, reply.status, reply.run_id) == ("done", "completed", asked.run_id)
    assert refunds.done == [("A1", 5)]
    assert is_valid(model.given[-1])
    assert [run["attempt"] for run in await chat.runs()] == [1]


async def test_p23_reject_the_tool_never_runs_and_the_model_reads_the_reason() -> None:
    refunds = Refunds()
    chat = an_agent(ONE, "sorry", tools=[refunds.tool]).thread("one")
    await chat.send("refund A1")
    reply = await chat.reject("over budget")
    assert reply.text == "sorry"
    assert refunds.done == []
    result = reply.messages[-2]["content"][0]["tool_result"]
    assert result["is_error"] is True
    assert "rejected" in result["content"]
    assert "over budget" in result["content"]
    assert reply.messages[-2]["metadata"] == {"rejected": True}


async def test_p23_approve_and_reject_answer_all_that_wait() -> None:
    refunds = Refunds()
    agent = an_agent(TWO, "done", tools=[refunds.tool])
    for key, answer, expected in (("a", "approve", [("A1", 5), ("B2", 7)]), ("b", "reject", [])):
        refunds.done.clear()
        chat = agent.thread(key)
        assert len((await chat.send("both")).pending) == 2
        assert (await getattr(chat, answer)()).status == "completed"
        assert sorted(refunds.done) == expected


async def test_p23_decide_some_and_the_run_goes_on_when_the_last_is_answered() -> None:
    refunds = Refunds()
    chat = an_agent(TWO, "done", tools=[refunds.tool]).thread("one")
    first, second = (await chat.send("both")).pending
    reply = await chat.decide({second["id"]: False})
    assert reply.status == "suspended"
    assert [call["id"] for call in reply.pending] == [first["id"]]
    with refused("thread_suspended"):
        await chat.send("hello?")
    reply = await chat.decide({first["id"]: {"approve": True}})
    assert reply.status == "completed"
    assert refunds.done == [("A1", 5)]


async def test_f24_rejecting_one_call_does_not_skip_the_others() -> None:
    refunds = Refunds()

    @tool
    def look() -> str:
        return "seen"

    model = Heard([call("look"), *TWO], "done")
    chat = an_agent(model=model, tools=[refunds.tool, look]).thread("one")
    first, second = (await chat.send("all")).pending
    assert results(await chat.messages()) == ["seen"]  # what needs nobody has run meanwhile
    await chat.decide({first["id"]: False, second["id"]: True})
    assert refunds.done == [("B2", 7)]
    assert is_valid(model.given[-1])


async def test_f25_f26_answers_go_by_our_own_id_though_the_provider_s_repeats() -> None:
    refunds = Refunds()
    same = [{"tool_call": {"id": "same", **block["tool_call"]}} for block in TWO]
    chat = an_agent(same, "done", tools=[refunds.tool]).thread("one")
    first, second = (await chat.send("both")).pending
    assert first["id"] != second["id"]
    await chat.decide({first["id"]: False, second["id"]: True})
    assert refunds.done == [("B2", 7)]
    results_in_order = [m["content"][0]["tool_result"] for m in await chat.messages() if m["role"] == "tool"]
    assert {result["is_error"] for result in results_in_order} == {True, False}


async def test_p24_a_decision_that_does_not_fit() -> None:
    refunds = Refunds()
    agent = an_agent(TWO, "done", tools=[refunds.tool])
    chat, other = agent.thread("one"), agent.thread("other")
    for nothing in (chat.approve, chat.reject):
        with refused("resume_invalid"):
            await nothing()
    first, _ = (await chat.send("both")).pending
    stranger = (await other.send("both")).pending[0]["id"]
    for unfit in (
        {}, {"no id": True}, {stranger: True}, {first["id"]: "yes"}, {first["id"]: {"approve": 1}},
        {first["id"]: {"approve": True, "unknown": 1}}, {first["id"]: {"approve": False, "arguments": {}}},
        {first["id"]: True, stranger: True}, {first["id"]: {"approve": False, "reason": 5}},
        {first["id"]: {"approve": True, "digest": "0" * 64}},
    ):  # fmt: skip
        with refused("resume_invalid"):
            await chat.decide(unfit)
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 4  # none of those answers was kept
    await chat.approve()
    with refused("resume_invalid"):
        await chat.approve()


async def test_edited_arguments_are_validated_and_the_original_stays_on_record() -> None:
    refunds = Refunds()
    chat = an_agent(ONE, "done", tools=[refunds.tool]).thread("one")
    [pending] = (await chat.send("refund")).pending
    for wrong in ({"order": "A1"}, {"order": "A1", "amount": "much"}, {"order": "A1", "amount": 1, "x": 2}):
        with refused("invalid_arguments"):
            await chat.decide({pending["id"]: {"approve": True, "arguments": wrong}})
    edited = {"order": "A1", "amount": 3}
    reply = await chat.decide({pending["id"]: {"approve": True, "arguments": edited}})
    assert reply.status == "completed"
    assert refunds.done == [("A1", 3)]
    row = await in_db(ToolCall.objects.get)
    assert (row.arguments, row.edited_arguments) == ({"order": "A1", "amount": 5}, edited)
    [started] = await chat.get_events(type="tool_start")
    assert started["details"]["arguments"] == edited


async def test_f30_the_answer_is_bound_to_the_arguments_shown() -> None:
    refunds = Refunds()
    chat = an_agent(TWO, "done", tools=[refunds.tool]).thread("one")
    first, second = (await chat.send("both")).pending
    assert first["digest"] != second["digest"]
    with refused("resume_invalid"):
        await chat.decide({first["id"]: {"approve": True, "digest": second["digest"]}})
    reply = await chat.decide({call["id"]: {"approve": True, "digest": call["digest"]} for call in (first, second)})
    assert reply.status == "completed"


async def test_f28_two_answers_at_once_have_one_effect_and_the_other_is_told_who_and_when() -> None:
    refunds = Refunds()
    chat = an_agent(ONE, "done", tools=[refunds.tool]).thread("one")
    [pending] = (await chat.send("refund")).pending
    outcomes = await asyncio.gather(
        chat.decide({pending["id"]: True}), chat.decide({pending["id"]: False}), return_exceptions=True
    )
    [late] = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert getattr(late, "code", late) == "resume_invalid"
    assert late.details["decided_at"]
    assert len(refunds.done) <= 1
    row = await in_db(ToolCall.objects.get)
    assert row.approved is (len(refunds.done) == 1)


async def test_an_approval_that_is_decided_by_a_function_of_context_and_arguments() -> None:
    seen: list[tuple[str, int]] = []

    def by_amount(context: ToolContext, order: str, amount: int) -> Any:
        seen.append((context.thread, amount))
        return {5: None, 7: True}[amount]

    refunds = Refunds(by_amount)
    chat = an_agent(TWO, "done", tools=[refunds.tool]).thread("one")
    reply = await chat.send("both")
    assert refunds.done == [("A1", 5)]
    assert [(call["arguments"]["amount"], call["approver"]) for call in reply.pending] == [(7, "staff")]
    assert seen == [("one", 5), ("one", 7)]


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(1)], ids=["error", "exit"])
async def test_an_approval_function_that_fails_asks_staff(error: BaseException) -> None:
    def broken(context: ToolContext, **arguments: Any) -> Any:
        raise error

    refunds = Refunds(broken)
    chat = an_agent(ONE, "done", tools=[refunds.tool]).thread("one")
    assert [call["approver"] for call in (await chat.send("refund")).pending] == ["staff"]
    assert refunds.done == []


async def test_f31_an_answer_that_was_kept_needs_no_second_decision_after_a_crash() -> None:
    refunds = Refunds()
    chat = an_agent(ONE, "done", tools=[refunds.tool]).thread("one")
    [pending] = (await chat.send("refund")).pending
    await in_db(chat.record, {pending["id"]: Decision(approve=True)})  # and then the process dies
    await die()
    assert (await chat.retry()).text == "done"
    assert refunds.done == [("A1", 5)]


async def test_an_answered_run_goes_before_a_send() -> None:
    refunds = Refunds()
    chat = an_agent(ONE, "done", "next", tools=[refunds.tool]).thread("one")
    [pending] = (await chat.send("refund")).pending
    await in_db(chat.record, {pending["id"]: Decision(approve=True)})
    assert (await chat.send("and then?")).text == "next"
    assert texts(await chat.messages())[-4:] == [
        "tool: refunded A1", "assistant: done", "user: and then?", "assistant: next",
    ]  # fmt: skip
    assert refunds.done == [("A1", 5)]


async def test_an_answer_that_comes_while_another_tool_still_runs_is_not_lost() -> None:
    gate = Gate()
    refunds = Refunds()

    @tool
    async def slow() -> str:
        await gate.wait()
        return "slow"

    chat = an_agent([call("slow"), *ONE], "done", tools=[slow, refunds.tool]).thread("one")
    sending = asyncio.create_task(chat.send("both"))
    await gate.reached.wait()
    row = await in_db(ToolCall.objects.awaiting_approval().get)
    deciding = asyncio.create_task(chat.decide({row.pk: True}))
    while await in_db(ToolCall.objects.awaiting_approval().exists):
        await asyncio.sleep(0.005)
    gate.open()
    assert [(await sending).status, (await deciding).status] == ["completed", "completed"]
    assert refunds.done == [("A1", 5)]
    assert "suspended" not in [checkpoint["status"] for checkpoint in await chat.history()]


async def test_agent_run_cannot_wait_for_an_approval() -> None:
    refunds = Refunds()
    with refused("approval_required"):
        await an_agent(ONE, "done", tools=[refunds.tool]).run("refund")
    assert not await in_db(Thread.objects.exists)
    assert refunds.done == []
