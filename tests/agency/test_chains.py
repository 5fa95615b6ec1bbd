"""An approval in the deepest of three conversations: the whole chain waits for it, and goes on together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from criogen_threads.agents import Agent, tool
from criogen_threads.engine import reads
from criogen_threads.engine.dispatch.executing import execute_due
from criogen_threads.engine.journal import families, leftovers, posts, rewinds, saves
from criogen_threads.engine.journal.askers import SITE
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.recovery import recover
from criogen_threads.models import Run, Thread, ToolCall
from criogen_threads.policy import get_policy
from tests.agency.support import an_agency, ask, runs_of, statuses, threads_of
from tests.support import Gate, Heard, call, gated, in_db, refused, results, texts

if TYPE_CHECKING:
    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)

WAITS = [("top", "requires_action"), ("middle", "requires_action"), ("deep", "requires_action")]
DONE = [("top", "completed"), ("middle", "completed"), ("deep", "completed")]


class Chain:
    """top asks middle, middle asks deep, deep looks something up and pays."""

    def __init__(self, approval: Any = "owner", **options: Any) -> None:
        self.ran: list[str] = []

        @tool
        def look() -> str:
            self.ran.append("look")
            return "seen"

        @tool(approval=approval, **options)
        def pay(amount: int) -> str:
            self.ran.append(f"pay {amount}")
            return f"paid {amount}"

        agents = [
            Agent("top", model=Heard([ask("middle")], "top is done", "more")),
            Agent("middle", model=Heard([ask("deep")], "middle is done")),
            Agent("deep", model=Heard([call("look")], [call("pay", amount=5)], "deep is done"), tools=[look, pay]),
        ]
        delegates = {"top": ["middle"], "middle": ["deep"]}
        self.agency = an_agency(entry=agents[0], specialists=agents[1:], delegates=delegates)

    async def begin(self, actor: Any = None) -> ThreadHandle:
        chat = await self.agency.create_thread(thread_id="one", actor=actor)
        reply = await chat.send("go")
        assert reply.status == "suspended"
        return chat


async def handle_of(chain: Chain, depth: int) -> ThreadHandle:
    handle = await chain.agency.get_thread((await in_db(threads_of, "one"))[depth].key)
    assert handle is not None
    return handle


async def waiting() -> list[tuple[str, str]]:
    return await in_db(lambda: list(ToolCall.objects.order_by("pk").values_list("name", "status")))


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


async def test_f21_a_cancel_of_a_suspended_chain_ends_all_of_it_and_retry_asks_again() -> None:
    chain = Chain()
    chat = await chain.begin()
    assert await chat.cancel()
    assert await in_db(statuses, "one") == [(name, "failed") for name, _ in WAITS]
    assert {run.error_code for run in await in_db(runs_of, "one")} == {"cancelled"}
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 0
    reply = await chat.retry()
    assert (reply.status, len(reply.pending)) == ("suspended", 1)
    assert await in_db(statuses, "one") == WAITS
    await chat.approve()
    assert chain.ran == ["look", "pay 5"]
    assert await in_db(statuses, "one") == DONE


async def test_a_cancel_of_the_deepest_lets_those_above_go_on_without_it() -> None:
    chain = Chain()
    chat = await chain.begin()
    deep = await handle_of(chain, 2)
    run = (await in_db(runs_of, "one"))[2]
    assert await deep.cancel(str(run.pk))
    while not await in_db(reads.rests, (await chat.runs())[0]["id"]):
        await asyncio.sleep(0.01)
    assert await in_db(statuses, "one") == [("top", "completed"), ("middle", "completed"), ("deep", "failed")]
    assert results(await (await handle_of(chain, 1)).messages()) == ["deep did not finish: Run cancelled by user"]


async def test_p21_an_approval_of_the_deepest_that_expires_counts_as_rejected_and_frees_the_chain() -> None:
    chain = Chain(expires_in=3600)
    chat = await chain.begin()
    with refused("thread_suspended"):
        await chat.send("?")
    await in_db(ToolCall.objects.awaiting_approval().update, expires_at="2020-01-01T00:00Z")
    assert (await recover()).expired == 1
    assert chain.ran == ["look"]
    assert await in_db(statuses, "one") == DONE
    assert texts(await chat.messages())[-1] == "assistant: top is done"


async def test_p19_a_send_leaves_a_chain_whose_approval_has_expired() -> None:
    chain = Chain(expires_in=3600)
    chat = await chain.begin()
    await in_db(ToolCall.objects.awaiting_approval().update, expires_at="2020-01-01T00:00Z")
    assert (await chat.send("and now?")).status == "completed"
    assert [status for _, status in await in_db(statuses, "one")] == ["failed", "failed", "failed", "completed"]
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 0
    assert chain.ran == ["look"]


async def test_p33_f29_a_rewind_to_the_suspension_asks_again_in_the_deepest_and_nothing_runs_twice() -> None:
    chain = Chain()
    chat = await chain.begin()
    suspension = (await chat.history())[0]
    assert (await chat.approve()).status == "completed"
    await chat.rewind(suspension["id"])
    run = await chat.get_current_run()
    assert run is not None
    [again] = run["required_action"]
    assert again["agent"] == "deep"
    old = await in_db(ToolCall.objects.filter(name="pay").order_by("pk").first)
    with refused("resume_invalid"):
        await chat.decide({old.pk: False})  # an older answer does not count, nor can it be given again
    assert (await chat.approve()).text == "top is done"
    assert chain.ran == ["look", "pay 5", "pay 5"]  # a rewind does not undo; what was finished before it stands
    assert {status for _, status in await in_db(statuses, "one")} == {"completed"}
    newest = (await in_db(runs_of, "one"))[3:]
    assert [run.agent for run in newest] == ["top", "middle", "deep"]
    assert [run.parent_run_id for run in newest[1:]] == [run.pk for run in newest[:-1]]


async def test_a_rewind_whose_process_dies_before_the_specialists_went_back() -> None:
    chain = Chain()
    chat = await chain.begin()
    suspension = (await chat.history())[0]
    await chat.approve()
    await in_db(rewinds.rewind, "one", chat._wish(suspension["id"]))  # and nothing more
    thread = await in_db(Thread.objects.get, key="one")
    assert (thread.status, thread.pending) == ("suspended", 1)
    assert await in_db(Run.objects.filter(parent_run=thread.current_run_id).count) == 0
    assert await in_db(leftovers.due) == []
    run = await chat.get_current_run()
    assert run is not None
    assert len(run["required_action"]) == 1
    assert (await chat.approve()).text == "top is done"
    assert chain.ran == ["look", "pay 5", "pay 5"]


async def test_p33_a_rewind_before_a_delegation_takes_the_specialist_s_memory_back() -> None:
    agents = [
        Agent("a", model=Heard([ask("b", "one")], "1", [ask("b", "two")], "2")),
        Agent("b", model=Heard("x", "y")),
    ]
    chat = await an_agency(entry=agents[0], specialists=agents[1:]).create_thread(thread_id="one")
    await chat.send("first")
    after_first = (await chat.history())[0]["id"]
    await chat.send("second")
    await chat.rewind(after_first)
    await chat.send("second again")
    assert texts(agents[1].backend.given[-1]) == ["user: one", "assistant: x", "user: two"]  # type: ignore[attr-defined]
    child = (await in_db(threads_of, "one"))[1]
    assert await in_db(Run.objects.filter(thread=child).count) == 3
    await chat.rewind((await chat.history(100))[-1]["id"])
    await chat.retry()
    assert texts(agents[1].backend.given[-1]) == ["user: one"]  # type: ignore[attr-defined]


async def test_p34_a_rewind_away_from_a_suspended_chain_ends_the_runs_below() -> None:
    chain = Chain()
    chat = await chain.begin()
    await chat.rewind((await chat.history())[-1]["id"])
    assert await in_db(statuses, "one") == [(name, "failed") for name, _ in WAITS]
    assert {run.error_code for run in await in_db(runs_of, "one")} == {"abandoned"}
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 0
    reply = await chat.retry()
    assert reply.status == "suspended"
    assert (await chat.approve()).text == "top is done"


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
