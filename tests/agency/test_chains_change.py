"""A chain that waits is cancelled, expires, is left, or goes back: all of it, and nothing runs twice."""

from __future__ import annotations

import asyncio

import pytest

from criogen_threads.agents import Agent
from criogen_threads.engine import reads
from criogen_threads.engine.journal import leftovers, rewinds
from criogen_threads.engine.recovery import recover
from criogen_threads.models import Run, Thread, ToolCall
from tests.agency.chained import DONE, WAITS, Chain, handle_of
from tests.agency.support import an_agency, ask, runs_of, statuses, threads_of
from tests.support import Heard, in_db, refused, results, texts

pytestmark = pytest.mark.django_db(transaction=True)


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
