"""Every kind of write, with each of its commits broken once: what is there in the end is the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import Tool
from criogen_threads.engine import driving, lease
from criogen_threads.engine.admission import Conduct
from criogen_threads.inputs import identifier
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from criogen_threads.signals import thread_deleted
from tests.database.turn import Saboteur
from tests.support import an_agent, call, in_db, texts

if TYPE_CHECKING:
    from tests.database.conftest import Breakable

COMMITS = 24
GOOD: dict[str, Any] = {}  # what comes of a life in which nothing breaks


async def a_life(key: str) -> dict[str, Any]:
    """Asked, approved, submitted, rewound, retried, described, deleted; what came of it."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    answers = [call("pay", amount=1)], "Done", "And more"
    chat = an_agent(*answers, tools=[Tool(pay, approval="owner")]).thread(key)
    reply = await chat.send("Pay", client_id="one", colour="red")
    assert reply.status == "suspended"
    reply = await chat.decide({reply.pending[0]["id"]: True})
    assert (reply.status, paid) == ("completed", [1])
    run_id = identifier(await chat.submit("More", client_id="two"))
    assert run_id is not None
    assert (await driving.follow(Conduct(), run_id)).text == "And more"
    asked = next(each for each in await chat.history(100) if each["source"] == "suspend")
    await chat.rewind(asked["id"])
    assert (await chat.reject("no")).text == "Done"
    middle = (await chat.history(2))[1]
    await chat.rewind(middle["id"])
    assert (await chat.retry()).text == "Done"
    await chat.describe(title="A life")
    await chat.create_event("note", {"a": 1})
    history = await chat.history(100)
    assert [each["version"] for each in history] == sorted((each["version"] for each in history), reverse=True)
    lived = {
        "said": texts(await chat.messages()),
        "history": [(each["version"], each["source"], each["status"]) for each in history],
        "events": Counter(event["type"] for event in await chat.get_events()),
        "runs": [(run["number"], run["status"], run["attempt"]) for run in await chat.runs()],
        "paid": list(paid),
    }
    assert await chat.delete(on_busy="interrupt") is True
    for model in (Checkpoint, Event, Message, Run, Thread, ToolCall):
        assert await in_db(model.objects.count) == 0
    return lived


async def test_the_commits_of_a_life(server: Breakable, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_db(lease.current().ensure)  # its commit is none of the life's
    saboteur = Saboteur(monkeypatch, server)
    await a_life("t")
    assert saboteur.commits == COMMITS


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("which", range(1, COMMITS + 1))
async def test_f04_no_write_of_a_life_is_lost_or_written_twice(
    server: Breakable, monkeypatch: pytest.MonkeyPatch, which: int, when: str
) -> None:
    await in_db(lease.current().ensure)
    if not GOOD:
        GOOD.update(await a_life("t"))
    saboteur = Saboteur(monkeypatch, server, which, when)
    assert await a_life("t") == GOOD
    assert saboteur.has_broken


async def test_p37_a_repeated_delete_spares_the_next_conversation_of_that_key(
    server: Breakable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delete was committed, its answer lost, and somebody spoke before it was repeated."""
    deleted: list[Any] = []
    thread_deleted.connect(lambda **facts: deleted.append(facts["thread_id"]), weak=False, dispatch_uid="test")
    chat = an_agent("Hi", "Ho").thread("t")
    await chat.send("Hello")
    [epoch] = {message["thread_id"] for message in await chat.messages()}
    saboteur = Saboteur(monkeypatch, server, 1, "after", then=lambda: chat.send_sync("Hello again"))
    assert await chat.delete() is True
    assert saboteur.has_broken
    assert texts(await chat.messages()) == ["user: Hello again", "assistant: Hi"]
    assert list(map(str, deleted)) == [epoch]
    thread_deleted.disconnect(dispatch_uid="test")
