"""What people answer while agents work, or before a run is stopped: nothing unseen, and nothing twice or lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from criogen_threads.agents import Agent, Tool, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.engine import driving, reads
from criogen_threads.engine import lease as leases
from criogen_threads.engine.dispatch.executing import execute_due
from criogen_threads.engine.journal import families, posts, rewinds, saves, takes
from criogen_threads.engine.journal.posts import Decision
from criogen_threads.engine.trees import chains
from criogen_threads.errors import AgentNotFoundError
from criogen_threads.ids import new_id
from criogen_threads.models import Run, Thread, ToolCall
from tests.agency.chained import DONE, WAITS, Chain, handle_of
from tests.agency.support import an_agency, ask, statuses, threads_of
from tests.support import Gate, Heard, call, gated, in_db, refused, results

pytestmark = pytest.mark.django_db(transaction=True)


class Payers:
    """front asks ann and bob, each of whom pays when a person agrees, and others."""

    def __init__(self, bob: Any = None, *others: Agent) -> None:
        self.ran: list[str] = []
        asked = [ask(name) for name in ("ann", "bob", *(other.name for other in others))]
        agents = [
            Agent("front", model=Heard(asked, "all")),
            Agent("ann", model=Heard([call("pay")], "ann paid"), tools=[self._pay("ann")]),
            Agent("bob", model=bob or Heard([call("pay")], "bob paid"), tools=[self._pay("bob")]),
            *others,
        ]
        self.agency = an_agency(entry=agents[0], specialists=agents[1:])

    def _pay(self, name: str) -> Tool:
        @tool(approval="owner")
        def pay() -> str:
            self.ran.append(name)
            return "paid"

        return pay

    async def handle(self, name: str) -> Any:
        thread = next(thread for thread in await in_db(threads_of, "one") if thread.agent == name)
        return await self.agency.get_thread(thread.key)


async def _until_waiting(count: int) -> None:
    while await in_db(ToolCall.objects.filter(status="waiting").count) < count:
        await asyncio.sleep(0.01)


async def test_f30_an_answer_to_all_at_once_takes_nothing_along_that_nobody_was_shown() -> None:
    shown, works = Gate(), Gate()
    carl = Agent("carl", model=gated(works, "carl is done"))
    payers = Payers(gated(shown, [call("pay")], "bob paid"), carl)
    chat = await payers.agency.create_thread(thread_id="one")
    turn = asyncio.create_task(chat.send("go"))
    await _until_waiting(1)
    version = (await in_db(Thread.objects.get, key="one")).version  # the page shows what ann asks for
    shown.open()
    await _until_waiting(2)
    for everything in (True, False):
        with refused("resume_invalid"):
            await chat.answer(everything, version=version)
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 2
    first = await in_db(lambda: ToolCall.objects.awaiting_approval().get(run__agent="ann"))
    await chat.answer({first.pk: True}, version=version)  # what is named was seen
    works.open()
    assert (await turn).status == "suspended"
    standing = await in_db(Thread.objects.get, key="one")
    assert standing.version > version
    await chat.answer(True, version=standing.version)
    while not await in_db(reads.rests, (await chat.runs())[0]["id"]):
        await asyncio.sleep(0.01)
    assert sorted(results(await chat.messages())) == ["ann paid", "bob paid", "carl is done"]
    assert sorted(payers.ran) == ["ann", "bob"]


async def test_p16_f31_an_answer_to_one_of_two_specialists_outlives_a_cancel() -> None:
    payers = Payers()
    chat = await payers.agency.create_thread(thread_id="one")
    await chat.send("go")
    first = await in_db(lambda: ToolCall.objects.awaiting_approval().get(run__agent="ann"))
    assert (await chat.decide({first.pk: True})).status == "suspended"
    assert await chat.cancel()
    reply = await chat.retry()
    assert (reply.status, [each["agent"] for each in reply.pending]) == ("suspended", ["bob"])
    assert payers.ran == ["ann"]
    assert (await chat.approve()).status == "completed"
    assert payers.ran == ["ann", "bob"]
    assert sorted(results(await chat.messages())) == ["ann paid", "bob paid"]


async def test_p18_f31_an_answered_chain_that_is_cancelled_before_it_is_taken_up_goes_on_at_retry() -> None:
    chain = Chain()
    chat = await chain.begin()
    await in_db((await handle_of(chain, 2)).record, None, Decision(approve=True))
    assert await chat.cancel()
    assert (await chat.retry()).text == "top is done"
    assert chain.ran == ["look", "pay 5"]
    assert await in_db(statuses, "one") == DONE


async def test_p18_f31_an_answer_outlives_the_failure_of_another_specialist() -> None:
    gate = Gate()
    payers = Payers(bob=gated(gate, ModelError("down", passing=False)))
    chat = await payers.agency.create_thread(thread_id="one")
    turn = asyncio.create_task(chat.send("go"))
    await _until_waiting(1)
    await in_db((await payers.handle("ann")).record, None, Decision(approve=True))
    gate.open()
    with refused("model_failed"):
        await turn
    payers.agency.agents["bob"].__dict__["backend"] = Heard("bob is up")
    assert (await chat.retry()).status == "completed"
    assert payers.ran == ["ann"]
    assert sorted(results(await chat.messages())) == ["ann paid", "bob is up"]


async def test_a_specialist_that_was_cancelled_alone_stays_so_when_its_caller_is_cancelled_and_retried() -> None:
    payers = Payers()
    chat = await payers.agency.create_thread(thread_id="one")
    await chat.send("go")
    assert await (await payers.handle("ann")).cancel()
    assert await chat.cancel()
    reply = await chat.retry()
    assert [each["agent"] for each in reply.pending] == ["bob"]
    assert (await chat.approve()).status == "completed"
    assert payers.ran == ["bob"]
    assert sorted(results(await chat.messages())) == ["ann did not finish: Run cancelled by user", "bob paid"]


async def test_a_caller_that_is_taken_up_again_keeps_the_run_that_somebody_is_about_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave, leases_taken = families.leave, []

    def retried_just_before(*args: Any) -> None:
        monkeypatch.setattr(families, "leave", leave)
        lease = takes.retry("one", leases.current().ensure(), run_id=new_id())
        assert lease
        leases_taken.append(lease)
        leave(*args)

    chain = Chain()
    chat = await chain.begin()
    await in_db(posts.cancel, "one", None, new_id())  # and its process dies: nobody has ended those below
    top = await in_db(Thread.objects.get, key="one")
    monkeypatch.setattr(families, "leave", retried_just_before)
    await in_db(families.settle, top.pk)
    monkeypatch.undo()
    [lease] = leases_taken
    assert await in_db(statuses, "one") == [("top", "in_progress"), *WAITS[1:]]
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 1
    await in_db(saves.release, lease.thread_id, lease.worker, lease.fence)
    assert (await chat.retry()).status == "suspended"
    assert (await chat.approve()).text == "top is done"
    assert chain.ran == ["look", "pay 5"]


async def test_a_caller_that_went_back_elsewhere_meanwhile_keeps_whom_it_asks_now() -> None:
    def waits() -> ToolCall:
        return ToolCall.objects.waiting().select_related("run", "child_run").get(child_checkpoint__isnull=False)

    chain = Chain()
    chat = await chain.begin()
    history = await chat.history()
    await chat.approve()
    await in_db(rewinds.rewind, "one", chat._wish(history[0]["id"]))  # and nothing more
    seen = await in_db(waits)  # by a process that then stands still
    await in_db(rewinds.rewind, "one", chat._wish(history[-1]["id"]))
    assert (await chat.retry()).status == "suspended"
    runs = await in_db(statuses, "one")
    await in_db(families._reopen, seen)
    assert await in_db(statuses, "one") == runs
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 1
    assert (await chat.approve()).text == "top is done"


async def test_f21_a_cancel_that_meets_a_specialist_about_to_wait_leaves_no_open_approval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait = saves.wait

    def cancelled_just_before(lease: Any, *args: Any) -> Any:
        if lease.run.agent == "top":
            posts.cancel("one", None, new_id())
        return wait(lease, *args)

    monkeypatch.setattr(saves, "wait", cancelled_just_before)
    chain = Chain()
    chat = await chain.agency.create_thread(thread_id="one")
    with refused("cancelled"):
        await chat.send("go")
    assert await in_db(statuses, "one") == [(name, "failed") for name, _ in WAITS]
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 0


async def test_an_answered_chain_whose_first_agent_is_gone_ends_altogether(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> Agent:
        raise AgentNotFoundError(name)

    chain = Chain()
    await chain.begin()
    await in_db((await handle_of(chain, 2)).record, None, Decision(approve=True))
    monkeypatch.setattr(driving, "get_agent", gone)
    await execute_due("one")
    assert await in_db(statuses, "one") == [(name, "failed") for name, _ in WAITS]
    top = await in_db(Run.objects.get, agent="top")
    assert top.error_code == "agent_not_found"


async def test_a_caller_that_is_being_deleted_cuts_no_other_chain_short() -> None:
    def cut() -> dict[str, list[str]]:
        other = Run.objects.get(agent="ann", thread__parent__key="two")
        Run.objects.filter(pk=other.parent_run_id)._raw_delete("default")
        runs = list(Run.objects.filter(agent="ann").order_by("-pk"))
        return {str(run.thread.parent_id): [link.run.agent for link in chains(runs)[run.pk]] for run in runs}

    payers = Payers()
    for key in ("one", "two"):
        await (await payers.agency.create_thread(thread_id=key)).send("go")
    tops = [str((await in_db(Thread.objects.get, key=key)).pk) for key in ("one", "two")]
    assert await in_db(cut) == {tops[0]: ["front", "ann"], tops[1]: ["ann"]}
