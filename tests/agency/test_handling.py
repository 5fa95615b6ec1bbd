"""A site changes how a run is handled, and what is saved stays true."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads import errors
from criogen_threads.agents import Handling, tool
from criogen_threads.backends.base import ModelAnswer, ModelError, Usage
from criogen_threads.models import Run
from tests.support import Heard, an_agent, call, in_db, refused, texts

if TYPE_CHECKING:
    from criogen_threads.agents import ToolContext
    from criogen_threads.backends.base import ModelRequest

pytestmark = pytest.mark.django_db(transaction=True)


class Told(Handling):
    """Writes down what it hears, and what stands in the rows then."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def _note(self, what: str) -> None:
        self.heard.append((what, (await in_db(Run.objects.get)).status))

    async def before_turn(self, context: ToolContext) -> None:
        await self._note(f"before {context.agent}")

    async def after_turn(self, context: ToolContext, status: str) -> None:
        await self._note(status)

    async def on_turn_error(self, context: ToolContext, error: errors.CriogenError) -> None:
        await self._note(error.code)

    async def before_step(self, context: ToolContext, request: ModelRequest) -> ModelRequest:
        await self._note(f"asks with {len(request.messages)}")
        return request

    async def after_step(self, context: ToolContext, answer: ModelAnswer) -> ModelAnswer:
        await self._note("answered")
        return answer


@tool(approval="owner")
def pay() -> str:
    return "paid"


async def test_b19_around_a_turn_and_around_its_steps() -> None:
    told = Told()
    chat = an_agent([call("pay")], "done", tools=[pay], handling=told).thread("one")
    await chat.send("go")
    assert told.heard == [
        ("before helper", "in_progress"), ("asks with 1", "in_progress"), ("answered", "in_progress"),
        ("suspended", "requires_action"),
    ]  # fmt: skip
    told.heard.clear()
    await chat.approve()
    assert told.heard == [
        ("before helper", "in_progress"), ("asks with 3", "in_progress"), ("answered", "in_progress"),
        ("completed", "completed"),
    ]  # fmt: skip


async def test_b19_on_error() -> None:
    told = Told()
    chat = an_agent(ModelError("down", passing=False), handling=told).thread("one")
    with refused("model_failed"):
        await chat.send("go")
    assert told.heard[-1] == ("model_failed", "failed")


class Canned(Handling):
    """The worked example of the documents: some questions need no model."""

    async def answer(self, context: ToolContext, request: ModelRequest) -> ModelAnswer | None:
        last = request.messages[-1]
        if last["role"] == "user" and "opening hours" in last["content"][0]["text"]:
            return ModelAnswer([{"text": "Every day from 9 to 5."}])
        return None


async def test_b19_a_hook_that_replaces_the_model_call() -> None:
    model = Heard("-", "by the model")
    chat = an_agent(model=model, handling=Canned()).thread("one")
    reply = await chat.send("What are your opening hours?")
    assert reply.text == "Every day from 9 to 5."
    assert model.given == []
    assert (await chat.send("And else?")).text == "by the model"
    assert texts(model.given[0])[:2] == ["user: What are your opening hours?", "assistant: Every day from 9 to 5."]
    assert [run["status"] for run in await chat.runs()] == ["completed", "completed"]


async def test_b19_a_request_and_an_answer_that_are_changed() -> None:
    class Changing(Handling):
        async def before_step(self, context: ToolContext, request: ModelRequest) -> ModelRequest:
            return replace(request, messages=request.messages[-1:], instructions="Be brief.")

        async def after_step(self, context: ToolContext, answer: ModelAnswer) -> ModelAnswer:
            return replace(answer, content=[{"text": "changed"}])

    model = Heard("one", "two")
    chat = an_agent(model=model, handling=Changing()).thread("one")
    events = [event async for event in chat.stream("a")]
    await chat.send("b")
    assert [texts(given) for given in model.given] == [["user: a"], ["user: b"]]
    assert texts(await chat.messages()) == ["user: a", "assistant: changed", "user: b", "assistant: changed"]
    streamed = [event["type"] for event in events if event["type"] in ("text_delta", "discarded", "message")]
    assert streamed[-2:] == ["discarded", "message"]  # the pieces that came are not those of what is saved


async def test_b19_an_answer_in_the_place_of_a_failure() -> None:
    class Calm(Handling):
        async def on_step_error(self, context: ToolContext, error: errors.CriogenError) -> ModelAnswer | None:
            return ModelAnswer([{"text": f"Please come back later ({error.code})."}], Usage(1, 1))

    chat = an_agent(ModelError("down", passing=False), handling=Calm()).thread("one")
    assert (await chat.send("go")).text == "Please come back later (model_failed)."


HOOKS = ["before_turn", "before_step", "answer", "after_step"]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ValueError("x"), "internal_error"), (SystemExit(1), "internal_error"),
        (asyncio.CancelledError(), "internal_error"), (errors.LeaseLostError(), "internal_error"),
        (errors.LimitReachedError("enough for today"), "limit_reached"),
    ],
)  # fmt: skip
async def test_b19_whatever_a_hook_raises_the_run_is_saved_as_failed(
    hook: str, raised: BaseException, code: str
) -> None:
    async def broken(*_: Any) -> Any:
        raise raised

    handling = Handling()
    setattr(handling, hook, broken)
    chat = an_agent("fine", handling=handling).thread("one")
    with refused(code):
        await chat.send("go")
    [run] = await chat.runs()
    assert (run["status"], run["error_code"]) == ("failed", code)
    delattr(handling, hook)
    assert (await chat.retry()).text == "fine"


@pytest.mark.parametrize("hook", ["before_step", "answer", "after_step", "on_step_error"])
async def test_b19_whatever_else_a_hook_returns_the_run_is_saved_as_failed(hook: str) -> None:
    async def odd(*_: Any) -> Any:
        return "odd"

    handling = Handling()
    setattr(handling, hook, odd)
    script = [ModelError("down", passing=False)] if hook == "on_step_error" else ["fine"]
    chat = an_agent(*script, handling=handling).thread("one")
    with refused("internal_error"):
        await chat.send("go")
    assert [run["status"] for run in await chat.runs()] == ["failed"]


@pytest.mark.parametrize("hook", ["after_turn", "on_turn_error"])
@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(1), asyncio.CancelledError()])
async def test_b19_what_a_hook_raises_after_the_save_changes_nothing(
    hook: str, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> Any:
        raise raised

    handling = Handling()
    setattr(handling, hook, broken)
    chat = an_agent("fine", ModelError("down", passing=False), handling=handling).thread("one")
    assert (await chat.send("go")).text == "fine"
    with refused("model_failed"):
        await chat.send("go")
    assert [run["status"] for run in await chat.runs()] == ["completed", "failed"]
    assert "hook" in caplog.text


async def test_b19_a_hook_that_hangs_can_be_cancelled() -> None:
    reached = asyncio.Event()

    class Hanging(Handling):
        async def before_step(self, context: ToolContext, request: ModelRequest) -> ModelRequest:
            reached.set()
            await asyncio.sleep(3600)
            return request

    chat = an_agent("fine", handling=Hanging()).thread("one")
    turn = asyncio.create_task(chat.send("go"))
    await reached.wait()
    assert await chat.cancel()
    with refused("cancelled"):
        await turn
    assert [run["status"] for run in await chat.runs()] == ["failed"]
