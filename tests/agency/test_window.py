"""How much of a conversation the model is given, and cutting off what is old."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.agents import LastTurns, Summary, Window, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall
from tests.agency.support import a_desk, ask, given, threads_of
from tests.support import an_agent, call, in_db, is_valid, refused, results, texts

if TYPE_CHECKING:
    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)


@tool(read_only=True)
def look(n: int) -> str:
    return f"seen {n}"


class Counting(ScriptedModel):
    """Answers the n-th message of the user with a tool call and then with n; writes summaries."""

    def __init__(self, fails: bool = False) -> None:
        self.given: list[list[dict[str, Any]]] = []
        self.summarised: list[str] = []
        self.fails = fails
        super().__init__(self._answer)

    def _answer(self, messages: Any, _tools: Any) -> Any:
        text = messages[-1]["content"][0].get("text", "")
        if len(messages) == 1 and "user: " in text:
            self.summarised.append(text)
            if self.fails:
                raise ModelError("no summary today", passing=False)
            return f"summary {len(self.summarised)}"
        self.given.append([dict(message) for message in messages])
        if messages[-1]["role"] == "user":
            return [call("look", n=int(text))]
        return f"answer {results(messages)[-1]}"


async def talk(policy: Any, turns: int, model: Counting | None = None) -> tuple[ThreadHandle, Counting]:
    model = model or Counting()
    chat = an_agent(model=model, tools=[look], window=policy).thread("one")
    for number in range(turns):
        await chat.send(str(number))
    return chat, model


async def test_b4_everything_is_given_by_default() -> None:
    chat, model = await talk(Window(), 4)
    assert len(model.given[-1]) == 15
    metadata = await in_db(lambda: list(Message.objects.values_list("metadata", flat=True)))
    assert metadata == [None] * 16
    last = await chat.get_last_message()
    assert last is not None
    assert await chat.given(last["id"]) == (await chat.messages())[:-1]


async def test_b4_b22_the_last_turns_never_cut_between_a_call_and_its_result() -> None:
    chat, model = await talk(LastTurns(2), 5)
    assert [given[0]["content"][0]["text"] for given in model.given] == [
        "0",
        "0",
        "0",
        "0",
        "1",
        "1",
        "2",
        "2",
        "3",
        "3",
    ]
    assert all(map(is_valid, model.given))
    assert len(await chat.messages()) == 20
    answers = [message for message in await chat.messages() if message["role"] == "assistant"]
    for answer, view in zip(answers, model.given, strict=True):  # what the model was given can be seen afterwards
        assert [{"role": m["role"], "content": m["content"]} for m in await chat.given(answer["id"])] == view
    assert answers[-1]["metadata"] == {"given": {"from": 13, "summary": None}}
    assert await chat.given((await chat.messages())[0]["id"]) is None
    assert await chat.given("nonsense") is None


async def test_b22_a_summary_is_a_message_of_its_own() -> None:
    chat, model = await talk(Summary(keep=2, every=2), 8)
    assert len(model.summarised) == 3
    assert "user: 0" in model.summarised[0]
    assert "[calls look with" in model.summarised[0]
    assert "summary 1" in model.summarised[1]  # the next one builds on it
    assert "user: 0" not in model.summarised[1]
    assert texts(model.given[-1])[0] == "user: Summary of the conversation so far:\n\nsummary 3"
    assert [message["role"] for message in model.given[-1]][:2] == ["user", "user"]
    assert all(map(is_valid, model.given))
    said = await chat.messages()
    assert len(said) == 32  # the conversation itself has none of it
    assert [{"role": m["role"], "content": m["content"]} for m in await chat.given(said[-1]["id"])] == model.given[-1]
    events = await chat.get_events(type="summary")
    assert [event["details"]["message"][-9:] for event in events] == ["summary 1", "summary 2", "summary 3"]
    runs = await chat.runs()
    assert sum(run["usage"]["requests"] for run in runs) == 16 + 3
    thread = await in_db(Thread.objects.get)
    assert thread.tokens == sum(run.tokens for run in await in_db(lambda: list(Run.objects.all())))


async def test_b22_a_summary_that_cannot_be_written_costs_nobody_the_turn() -> None:
    chat, model = await talk(Summary(keep=1, every=1), 4, Counting(fails=True))
    assert len(model.given[-1]) == 15
    assert [run["status"] for run in await chat.runs()] == ["completed"] * 4


async def test_b22_a_rewind_takes_an_older_summary() -> None:
    chat, model = await talk(Summary(keep=1, every=1), 2)
    first = (await chat.history())[0]["id"]
    await chat.send("2")
    await chat.rewind(first)
    await chat.send("7")
    assert texts(model.given[-2]) == ["user: Summary of the conversation so far:\n\nsummary 3", "user: 7"]
    assert "summary 1" in model.summarised[2]  # it builds on the one of that branch
    assert "user: 1" in model.summarised[2]
    assert "user: 2" not in model.summarised[2]


@pytest.mark.parametrize("policy", [lambda: LastTurns(0), lambda: Summary(0, 1), lambda: Summary(1, 0)])
def test_b22_a_policy_that_cannot_be_is_refused(policy: Any) -> None:
    with pytest.raises(ImproperlyConfigured):
        policy()


def test_b22_an_agent_takes_policies_only() -> None:
    with pytest.raises(ImproperlyConfigured, match="window must be"):
        an_agent("x", window=5)


# Cutting off ---------------------------------------------------------------------------------------------------------


async def test_b22_old_history_is_cut_off_and_the_conversation_stays_valid() -> None:
    chat, model = await talk(Window(), 5)
    archived: list[dict[str, Any]] = []
    before = await chat.messages()
    assert await chat.trim(2, archive=archived.extend) == 12
    assert archived == before[:12]
    after = await chat.messages()
    assert [m["id"] for m in after] == [m["id"] for m in before[12:]]
    assert is_valid(after)
    assert (await chat.send("5")).text == "answer seen 5"
    assert is_valid(model.given[-1])
    assert model.given[-1][0]["content"] == [{"text": "3"}]
    history = await chat.history(100)
    assert [c.get("cut", False) for c in history] == [False] * (len(history) - 1) + [True]
    assert history[-1]["parent_id"] is None
    assert [c["version"] for c in history] == list(
        range(history[0]["version"], history[0]["version"] - len(history), -1)
    )
    assert await in_db(Message.objects.count) == 12
    assert await in_db(ToolCall.objects.count) == 3
    [event] = await chat.get_events(type="history_cut")
    assert event["details"]["messages"] == 12
    assert (await chat.thread_state())["message_count"] == 12
    assert len(await chat.runs()) == 6
    assert [run.input for run in await in_db(lambda: list(Run.objects.order_by("number")))][:3] == [None] * 3


async def test_b22_a_rewind_works_on_both_sides_of_nothing() -> None:
    chat, _ = await talk(Window(), 4)
    history = await chat.history(100)
    await chat.trim(2)
    with refused("checkpoint_not_found"):
        await chat.rewind(history[-1]["id"])
    left = await chat.history(100)
    await chat.rewind(left[-1]["id"])
    assert (await chat.retry()).text == "answer seen 2"
    for event in await in_db(lambda: list(Event.objects.all())):
        assert event.message_id is None or await in_db(Message.objects.filter(pk=event.message_id).exists)


async def test_b22_the_state_stays_where_it_was_set_before_the_cut() -> None:
    chat = an_agent(*"abcd").thread("one")
    await chat.send("a", customer=7)
    await chat.send("b")
    await chat.send("c")
    await chat.trim(2)
    first = (await chat.history(100))[-1]
    await chat.send("d", customer=8)
    await chat.rewind(first["id"])
    assert (await in_db(Thread.objects.get)).state == {"customer": 7}
    assert (
        await in_db(
            Checkpoint.objects.filter(state_at__isnull=False).exclude(state_at__in=Checkpoint.objects.all()).count
        )
        == 0
    )


async def test_b22_nothing_is_cut_where_there_is_nothing_old_or_where_the_archive_fails() -> None:
    chat, _ = await talk(Window(), 2)
    assert await chat.trim(2) == 0
    assert await chat.trim(5) == 0

    async def broken(_: Any) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await chat.trim(1, archive=broken)
    assert len(await chat.messages()) == 8
    with refused("invalid_option"):
        await chat.trim(0)
    with refused("thread_not_found"):
        await chat.agent.thread("nowhere").trim(1)


async def test_b22_a_specialist_still_remembers_what_was_cut_off_above_it() -> None:
    agency = a_desk([[ask("billing", "first")], "1", "2", "3", [ask("billing", "again")], "4"], ["alpha", "beta"])
    chat = await agency.create_thread(thread_id="one")
    for text in "abc":
        await chat.send(text)
    await chat.trim(1)
    agency.entry.__dict__["backend"] = type(agency.entry.backend)("-", [ask("billing", "again")], "4")  # type: ignore[call-arg]
    await chat.send("d")
    assert texts(given(agency.agents["billing"])[-1]) == ["user: first", "assistant: alpha", "user: again"]
    assert len(await in_db(threads_of, "one")) == 2


def test_b22_trim_without_asyncio() -> None:
    chat = an_agent(*"abc").thread("one")
    for text in "abc":
        chat.send_sync(text)
    assert chat.trim_sync(1) == 4
