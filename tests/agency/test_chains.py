"""An approval in the deepest of three conversations: the whole chain waits for it, and goes on together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from criogen_threads.agents import Agent, tool
from criogen_threads.engine import reads
from criogen_threads.engine.dispatch.executing import execute_due
from criogen_threads.engine.journal import families, leftovers, posts, saves
from criogen_threads.engine.journal.askers import SITE
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.recovery import recover
from criogen_threads.models import Run, Thread, ToolCall
from criogen_threads.policy import get_policy
from tests.agency.chained import DONE, WAITS, Chain, handle_of
from tests.agency.support import an_agency, ask, statuses, threads_of
from tests.support import Gate, Heard, call, gated, in_db, refused, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


async def test_b17_an_approval_of_the_deepest_suspends_the_whole_chain_and_frees_every_thread() -> None:
    chain = Chain()
    chat = await chain.begin()
    assert await in_db(statuses, "one") == WAITS
    for thread in await in_db(threads_of, "one"):
        assert (thread.status, thread.holder, thread.pending) == ("suspended", None, 1)
    run = await chat.get_current_run()
    assert run is not None
    [view] = run["required_action"]
    assert (view["agent"], view["name"], view["arguments"]) == ("deep", "pay", {"amount": 5})
    with refused("thread_suspended"):
        await chat.send("?")
    with refused("thread_suspended"):
        await chat.retry()


async def test_b17_the_answer_is_given_where_people_speak_and_the_chain_goes_on() -> None:
    chain = Chain()
    chat = await chain.begin()
    reply = await chat.approve()
    assert (reply.status, reply.text) == ("completed", "top is done")
    assert chain.ran == ["look", "pay 5"]
    assert results(await chat.messages()) == ["middle is done"]
    assert await in_db(statuses, "one") == DONE
    assert {thread.pending for thread in await in_db(threads_of, "one")} == {0}


async def test_b17_the_answer_is_given_where_the_call_is_and_the_chain_goes_on() -> None:
    chain = Chain()
    chat = await chain.begin()
    deep = await handle_of(chain, 2)
    reply = await deep.approve()
    assert (reply.status, reply.text) == ("completed", "deep is done")
    assert await in_db(statuses, "one") == DONE
    assert texts(await chat.messages())[-1] == "assistant: top is done"


async def test_b17_an_edited_and_a_rejected_call_of_the_deepest() -> None:
    chain = Chain()
    chat = await chain.begin()
    run = await chat.get_current_run()
    assert run is not None
    wanted = run["required_action"][0]["id"]
    with refused("resume_invalid"):
        await chat.decide({wanted: True, "0190b8b0-0000-7000-8000-000000000000": True})
    assert await in_db(statuses, "one") == WAITS  # none of them is kept
    assert (await chat.decide({wanted: {"approve": True, "arguments": {"amount": 3}}})).text == "top is done"
    assert chain.ran == ["look", "pay 3"]


async def test_p22_f31_an_answer_whose_process_dies_is_taken_up_by_the_dispatcher_from_the_top() -> None:
    chain = Chain()
    await chain.begin()
    deep = await handle_of(chain, 2)
    await in_db(deep.record, None, Decision(approve=True))  # and nothing more
    assert await in_db(leftovers.due) == ["one"]
    await execute_due("one")
    assert await in_db(statuses, "one") == DONE


async def test_an_answer_between_whose_steps_up_the_process_dies() -> None:
    chain = Chain()
    await chain.begin()
    call_id = (await in_db(ToolCall.objects.awaiting_approval().get)).pk
    await in_db(posts.decide, "one", {call_id: Decision(approve=True)}, SITE)
    middle = (await in_db(threads_of, "one"))[1]
    await in_db(families.wake, middle.pk)  # the middle is due; nobody has told the top
    assert (await recover()).answered == 1
    assert await in_db(statuses, "one") == DONE
    assert chain.ran == ["look", "pay 5"]


async def test_retry_takes_an_answered_chain_up() -> None:
    chain = Chain()
    chat = await chain.begin()
    call_id = (await in_db(ToolCall.objects.awaiting_approval().get)).pk
    await in_db(posts.decide, "one", {call_id: Decision(approve=False, reason="no")}, SITE)
    assert (await chat.retry()).text == "top is done"
    assert chain.ran == ["look"]


async def test_b17_the_answer_by_rest_s_way_is_dispatched_from_the_top() -> None:
    chain = Chain()
    chat = await chain.begin()
    deep = await handle_of(chain, 2)
    await deep.answer(True)
    while not await in_db(reads.rests, (await chat.runs())[0]["id"]):
        await asyncio.sleep(0.01)
    assert await in_db(statuses, "one") == DONE


async def test_who_asked_up_the_chain_never_answers_what_needs_staff() -> None:
    def people() -> tuple[Any, Any]:
        users = get_user_model().objects
        asker, other = (users.create_user(name, is_staff=True) for name in ("ann", "bob"))
        for user in (asker, other):
            user.user_permissions.add(Permission.objects.get(codename="decide_toolcall"))
        return asker, users.get(pk=other.pk)

    asker, other = await in_db(people)
    chain = Chain(approval="staff")
    chat = await chain.begin(actor=asker)
    deep = await handle_of(chain, 2)
    pending = await in_db(ToolCall.objects.awaiting_approval().select_related("thread", "run").get)
    assert await in_db(get_policy().asked_by, pending.thread, pending.run) == {asker.pk}
    with refused("permission_denied"):
        await chat.approve()
    assert await in_db(lambda: list(get_policy().decidable(other, ToolCall.objects.awaiting_approval()))) == [pending]
    deep.actor = other
    assert (await deep.approve()).status == "completed"
    assert await in_db(statuses, "one") == DONE


async def test_f01_f28_answers_from_everywhere_at_once_run_the_chain_once() -> None:
    chain = Chain()
    chat = await chain.begin()
    deep = await handle_of(chain, 2)
    done = await asyncio.gather(
        chat.approve(), deep.approve(), chat.reject("no"), recover(), recover(), return_exceptions=True
    )
    lost = [each for each in done if isinstance(each, BaseException)]
    assert {getattr(each, "code", each) for each in lost} <= {"resume_invalid"}
    while not await in_db(reads.rests, (await chat.runs())[0]["id"]):
        await asyncio.sleep(0.01)
    assert await in_db(statuses, "one") == DONE
    assert chain.ran in (["look", "pay 5"], ["look"])
    [decided] = await in_db(lambda: list(ToolCall.objects.filter(decided_at__isnull=False)))
    assert (decided.status == "done") == (len(chain.ran) == 2)


async def test_f35_everything_at_once_in_one_family_ends_and_leaves_no_lock() -> None:
    chain = Chain()
    chat = await chain.begin()
    deep, middle = await handle_of(chain, 2), await handle_of(chain, 1)
    await asyncio.gather(
        chat.approve(),
        deep.approve(),
        middle.cancel(),
        recover(),
        chat.cancel(),
        chat.delete(on_busy="interrupt"),
        return_exceptions=True,
    )
    await chat.delete(on_busy="interrupt")
    for model in (Thread, Run, ToolCall):
        assert await in_db(model._base_manager.count) == 0


async def test_a_specialist_that_is_gone_while_it_is_waited_for_is_waited_for() -> None:
    """The site was changed meanwhile: the call cannot be made any more, but it was."""
    chain = Chain()
    chat = await chain.begin()
    middle = chain.agency.agents["middle"]
    tools = middle.tools
    middle.tools = {}
    await in_db(families.settle, (await in_db(Thread.objects.get, key="one")).pk)
    assert await in_db(statuses, "one") == WAITS
    middle.tools = tools
    assert (await chat.approve()).text == "top is done"


@pytest.mark.parametrize("who", ["middle", "top"])
async def test_an_answer_that_comes_while_a_caller_decides_to_suspend_is_not_lost(
    who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspend = saves.suspend

    def answered_just_before(lease: Any, *args: Any) -> Any:
        if lease.run.agent == who:
            waiting = ToolCall.objects.awaiting_approval().get()
            posts.decide(waiting.thread.key, {waiting.pk: Decision(approve=True)}, SITE)  # and its process dies
        return suspend(lease, *args)

    monkeypatch.setattr(saves, "suspend", answered_just_before)
    chain = Chain()
    chat = await chain.agency.create_thread(thread_id="one")
    reply = await chat.send("go")
    if who == "top":  # what it waits for still waits itself: the look of the dispatcher finds that this is in vain
        assert reply.status == "suspended"
        assert (await recover()).answered == 1
    assert texts(await chat.messages())[-1] == "assistant: top is done"
    assert chain.ran == ["look", "pay 5"]
    assert await in_db(statuses, "one") == DONE
    sources = [checkpoint["source"] for checkpoint in await chat.history()]
    assert sources.count("suspend") == (1 if who == "top" else 0)


async def test_an_approval_of_one_specialist_waits_while_another_one_works() -> None:
    gate = Gate()

    @tool(approval="owner")
    def pay() -> str:
        return "paid"

    agents = [
        Agent("a", model=Heard([ask("b"), ask("c")], "both")),
        Agent("b", model=Heard([call("pay")], "b is done"), tools=[pay]),
        Agent("c", model=gated(gate, "c is done")),
    ]
    agency = an_agency(entry=agents[0], specialists=agents[1:])
    chat = await agency.create_thread(thread_id="one")
    turn = asyncio.create_task(chat.send("go"))
    await gate.reached.wait()
    while not await in_db(ToolCall.objects.filter(status="waiting").exists):
        await asyncio.sleep(0.01)
    b = next(thread for thread in await in_db(threads_of, "one") if thread.agent == "b")
    handle = await agency.get_thread(b.key)
    assert handle is not None
    await in_db(handle.record, None, Decision(approve=True))  # its caller is held, and goes on by itself
    gate.open()
    assert (await turn).text == "both"
    assert sorted(results(await chat.messages())) == ["b is done", "c is done"]
    assert [checkpoint["source"] for checkpoint in await chat.history()].count("suspend") == 0


async def test_f21_a_run_that_is_cancelled_while_one_specialist_works_ends_that_which_waits_too() -> None:
    """At once, and not when somebody comes to look: nobody is left to answer for it."""

    @tool(approval="staff")
    def refund() -> str:
        return "never"

    gate = Gate()
    front = Agent("front", model=Heard([ask("billing"), ask("travel")], "never"))
    billing = Agent("billing", model=Heard([call("refund")], "never"), tools=[refund])
    travel = Agent("travel", model=gated(gate, "never"))
    chat = an_agency(entry=front, specialists=[billing, travel]).entry.thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    async with asyncio.timeout(30):
        while not await in_db(ToolCall.objects.waiting().exists):  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {status for _, status in await in_db(statuses, "one")} == {"failed"}
