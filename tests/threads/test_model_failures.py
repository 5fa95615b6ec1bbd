"""What a model that fails leaves behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Thread
from tests.support import Gate, an_agent, call, in_db, refused, texts

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


async def test_p17_a_failed_model_is_saved_as_failed() -> None:
    chat = an_agent(ModelError("no such key", passing=False)).thread("one")
    with refused("model_failed") as caught:
        await chat.send("a")
    assert "no such key" in str(caught.value)
    head = (await chat.history())[0]
    assert (head["status"], head["source"]) == ("failed", "failure")
    run = await chat.get_current_run()
    assert run is not None
    assert (run["status"], run["error_code"]) == ("failed", "model_failed")
    assert (await in_db(Thread.objects.get)).status == "failed"


async def test_a_passing_failure_of_the_model_is_asked_again_and_the_half_answer_is_void() -> None:
    tries: list[int] = []

    class Cut(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            tries.append(1)
            async for piece in super().stream(request):
                yield piece
                if len(tries) == 1:
                    raise ModelError("cut", passing=True)

    model = Cut(lambda messages, tools: "a whole answer, in several pieces")
    chat = an_agent(model=model).thread("one")
    events = [event async for event in chat.stream("a")]
    assert len(tries) == 2
    void = next(event["message_id"] for event in events if event["type"] == "discarded")
    kept = [e["text"] for e in events if e["type"] == "text_delta" and e["message_id"] != void]
    assert "".join(kept) == "a whole answer, in several pieces" == events[-1]["reply"].text


@pytest.mark.parametrize("kind", [SystemExit, type("Panic", (BaseException,), {})], ids=["exit", "panic"])
def test_b10_whatever_the_model_raises_the_run_is_saved_and_the_loop_lives(kind: type[BaseException]) -> None:
    def respond(messages: Any, tools: Any) -> str:
        raise kind

    chat = an_agent(model=ScriptedModel(respond)).thread("one")
    with refused("model_failed"):
        chat.send_sync("a")
    assert chat.runs_sync()[0]["status"] == "failed"
    assert an_agent("alive").thread("two").send_sync("b").text == "alive"


async def test_b10_the_model_raises_and_everybody_is_told() -> None:
    def respond(messages: Any, tools: Any) -> str:
        raise RuntimeError("a bug in the backend")

    chat = an_agent(model=ScriptedModel(respond)).thread("one")
    with refused("model_failed"):
        await chat.send("a")
    run = (await chat.runs())[0]
    assert run["status"] == "failed"
    assert "a bug in the backend" in run["last_error"]
    [event] = await chat.get_events(type="error")
    assert event["details"] == {"code": "model_failed", "error": run["last_error"]}
    assert event["run_id"] == run["id"]


async def test_the_text_of_a_stopped_answer_is_kept_in_the_event_and_never_given_to_the_model() -> None:
    class Stuck(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            self.requests = [*getattr(self, "requests", []), request]
            async for piece in super().stream(request):
                yield piece
                if len(self.requests) == 1:
                    await gate.wait()

    gate = Gate()
    model = Stuck(lambda messages, tools: "0123456789", chunk=4)
    chat = an_agent(model=model).thread("one")
    task = asyncio.create_task(chat.send("a"))
    await gate.reached.wait()
    await chat.cancel()
    with refused("cancelled"):
        await task
    [event] = await chat.get_events(type="error")
    assert event["details"]["partial"] == "0123"
    await chat.send("b")
    assert texts(model.requests[-1].messages) == ["user: a", "user: b"]


class Breaking(ScriptedModel):
    """Says half of each answer and breaks off, for as long as it is told to."""

    def __init__(self, answers: list[Any], breaks: dict[int, ModelError]) -> None:
        self.answers, self.breaks, self.asked = answers, breaks, 0
        super().__init__(lambda messages, tools: self.answers[self.asked - 1], chunk=4)

    async def stream(self, request: Any) -> Any:
        self.asked += 1
        async for piece in super().stream(request):
            yield piece
            if error := self.breaks.get(self.asked):
                raise error


@pytest.mark.parametrize(
    ("breaks", "kept"),
    [
        ({1: ModelError("cut", passing=True), 2: ModelError("down", passing=False)}, "seco"),  # the first half is void
        ({2: ModelError("down", passing=False)}, "seco"),  # the first answer is a message
    ],
    ids=["asked again", "after an answer"],
)
async def test_of_the_text_of_a_failed_answer_only_that_is_kept_which_is_no_message(
    breaks: dict[int, ModelError], kept: str, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"MODEL_BACKOFF": 0.01}

    @tool
    def look() -> str:
        return "seen"

    first = [{"text": "first answer"}, call("look")]
    chat = an_agent(model=Breaking([first, "second answer"], breaks), tools=[look]).thread("one")
    with refused("model_failed"):
        await chat.send("a")
    [event] = await chat.get_events(type="error")
    assert event["details"]["partial"] == kept


async def test_where_an_answer_was_saved_a_later_failure_keeps_no_text() -> None:
    @tool
    async def look() -> str:
        return "seen"

    chat = an_agent([{"text": "One moment."}, call("look")], "never", tools=[look], max_tokens=1).thread("one")
    with refused("limit_reached"):
        await chat.send("a")
    [event] = await chat.get_events(type="error")
    assert "partial" not in event["details"]
