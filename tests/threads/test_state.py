"""State: what a site says about a conversation, beside what is said in it."""

from __future__ import annotations

import enum
from copy import deepcopy
from typing import Any

import pytest

from criogen_threads.agents import ToolContext, tool
from criogen_threads.models import Checkpoint, Thread
from tests.support import Heard, an_agent, call, in_db, refused

pytestmark = pytest.mark.django_db(transaction=True)


class Plan(enum.Enum):
    PRO = "pro"


class Watched:
    """A thread whose tool and instructions tell what state they were given."""

    def __init__(self) -> None:
        self.tool_saw: list[dict[str, Any]] = []
        self.instructions_saw: list[dict[str, Any]] = []

        @tool
        def look(context: ToolContext) -> str:
            self.tool_saw.append(deepcopy(dict(context.state)))
            if "deep" in context.state:
                context.state["deep"]["changed"] = True
            with pytest.raises(TypeError):
                context.state["x"] = 1  # type: ignore[index]
            return "seen"

        def instructions(context: ToolContext) -> str:
            self.instructions_saw.append(dict(context.state))
            return f"Help in {context.locale or 'any language'}."

        answers = [[call("look")], "one", [call("look")], "two", [call("look")], "three", [call("look")], "four"]
        self.chat = an_agent(*answers, tools=[look], instructions=instructions).thread("one")


async def test_p4_state_is_merged_saved_and_given_to_tools_and_instructions() -> None:
    watched = Watched()
    await watched.chat.send("a", plan="pro", n=1)
    await watched.chat.send("b", n=2, deep={"k": [1]})
    await watched.chat.send("c")
    final = {"plan": "pro", "n": 2, "deep": {"k": [1]}}
    assert watched.tool_saw == [{"plan": "pro", "n": 1}, final, final]  # a tool cannot change what is saved
    assert watched.instructions_saw[-1] == final
    assert (await in_db(Thread.objects.get)).state == final


async def test_state_stands_only_in_the_checkpoint_that_changed_it() -> None:
    watched = Watched()
    await watched.chat.send("a", plan="pro")
    await watched.chat.send("b")
    rows = await in_db(lambda: list(Checkpoint.objects.order_by("version").values_list("state", "state_at")))
    [changed] = [row for row in rows if row[0] is not None]
    assert changed[0] == {"plan": "pro"}
    assert {row[1] for row in rows} == {changed[1]}
    assert rows[0] == changed


async def test_p34_rewind_restores_the_state() -> None:
    watched = Watched()
    await watched.chat.send("a", n=1)
    target = (await watched.chat.history())[0]["id"]
    await watched.chat.send("b", n=2, extra=True)
    await watched.chat.rewind(target)
    assert (await in_db(Thread.objects.get)).state == {"n": 1}
    await watched.chat.send("c")
    assert watched.tool_saw[-1] == {"n": 1}


async def test_p34_the_state_outlasts_a_rewind_of_a_rewind() -> None:
    watched = Watched()
    await watched.chat.send("a", n=1)
    target = (await watched.chat.history())[0]["id"]
    await watched.chat.send("b", n=2)
    fork = await watched.chat.rewind(target)
    await watched.chat.send("c")
    after = (await watched.chat.history())[0]["id"]
    await watched.chat.send("d", n=4)
    for checkpoint in (after, fork["id"]):
        await watched.chat.rewind(checkpoint)
        assert (await in_db(Thread.objects.get)).state == {"n": 1}


async def test_rewind_to_before_any_state() -> None:
    watched = Watched()
    await watched.chat.send("a")
    target = (await watched.chat.history())[0]["id"]
    await watched.chat.send("b", n=2)
    await watched.chat.rewind(target)
    assert (await in_db(Thread.objects.get)).state == {}


async def test_a_retry_of_a_rewound_run_has_the_state_of_then() -> None:
    watched = Watched()
    await watched.chat.send("a", n=1)
    asked = next(c for c in await watched.chat.history() if c["version"] == 2)["id"]
    await watched.chat.send("b", n=2)
    await watched.chat.rewind(asked)
    await watched.chat.retry()
    assert watched.tool_saw[-1] == {"n": 1}


@pytest.mark.parametrize(
    "value", [object(), Plan.PRO, {1, 2}, (1,), {"a": {1: 2}}, float("nan"), b"x", "\ud800"],
    ids=["object", "enum", "set", "tuple", "key", "nan", "bytes", "half"],
)  # fmt: skip
async def test_f41_a_state_that_is_not_json_is_refused_before_anything_is_stored(value: Any) -> None:
    chat = an_agent("x").thread("one")
    for attempt in (chat.send, chat.submit):
        with refused("invalid_state"):
            await attempt("a", thing=value)
    with refused("invalid_state"):
        [event async for event in chat.stream("a", thing=value)]
    assert not await in_db(Thread.objects.exists)


async def test_a_waiting_turn_brings_its_state_when_it_starts() -> None:
    watched = Watched()
    run_id = await watched.chat.submit("a", n=1)
    while (await watched.chat.run(run_id) or {})["status"] != "completed":
        await in_db(lambda: None)
    assert watched.tool_saw == [{"n": 1}]


async def test_a_name_that_is_also_an_argument_of_the_engine_may_be_state() -> None:
    model = Heard("x")
    chat = an_agent(model=model).thread("one")
    await chat.send("a", content="c", chosen="x", key="k", run_id=1, thread="t")
    stored = (await in_db(Thread.objects.get)).state
    assert stored == {"content": "c", "chosen": "x", "key": "k", "run_id": 1, "thread": "t"}
