"""Answers to approvals that cannot be, events that cannot be, and agents that are gone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from criogen_threads.agents import Agent, Tool, register, unregister
from criogen_threads.backends.scripted import ScriptedModel
from tests.support import an_agent, call, refused, results, texts
from tests.threads.rows import refused_without_a_trace
from tests.threads.values import HALF, NOT_JSON, NUL, Colour, nested

if TYPE_CHECKING:
    from collections.abc import Mapping

    from criogen_threads.threads import ThreadHandle

pytestmark = pytest.mark.django_db(transaction=True)

ASKED = [call("pay", amount=1), call("pay", amount=2)]
AN_EVENT = "note"


class Till:
    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int) -> str:
        self.paid.append(amount)
        return f"paid {amount}"


@pytest.fixture
def till() -> Till:
    return Till()


async def suspended(till: Till, key: str = "t") -> tuple[ThreadHandle, list[str]]:
    """A thread that waits for two answers, and their ids."""
    agent = an_agent(ASKED, "Done", ASKED, "Done", tools=[Tool(till.pay, approval="owner")])
    chat = agent.thread(key)
    reply = await chat.send("Pay")
    return chat, [pending["id"] for pending in reply.pending]


async def is_answerable(chat: ThreadHandle, till: Till) -> None:
    """Both calls still wait, and run once."""
    assert till.paid == []
    reply = await chat.approve()
    assert (reply.status, sorted(till.paid)) == ("completed", [1, 2])


BAD_DECISIONS: dict[str, Any] = {
    "none": None, "number": 1, "text": "yes", "list": [True], "empty": {}, "no answer": {"reason": "x"},
    "a number as answer": {"approve": 1}, "unknown key": {"approve": True, "why": "x"},
    "a reason that is none": {"approve": False, "reason": 5}, "half a pair": {"approve": False, "reason": HALF},
    "a long reason": {"approve": False, "reason": "x" * 10_001}, "enum": {"approve": False, "reason": Colour.RED},
    "arguments that are none": {"approve": True, "arguments": [1]},
    "arguments of a rejected call": {"approve": False, "arguments": {"amount": 1}},
    "a digest that is none": {"approve": True, "digest": 5}, "another digest": {"approve": True, "digest": "0" * 64},
    "half a digest": {"approve": True, "digest": HALF},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_DECISIONS)
async def test_p24_a_decision_that_is_none_is_refused(name: str, till: Till) -> None:
    chat, [first, second] = await suspended(till)
    async with refused_without_a_trace("resume_invalid"):
        await chat.decide({first: True, second: BAD_DECISIONS[name]})
    await is_answerable(chat, till)


@pytest.mark.parametrize("decisions", [None, {}, [], True, "yes", [("a", True)]])
async def test_p24_decisions_that_are_none_are_refused(decisions: Any, till: Till) -> None:
    chat, _ = await suspended(till)
    async with refused_without_a_trace("resume_invalid"):
        await chat.decide(decisions)
    await is_answerable(chat, till)


NOBODY = UUID(int=7)  # fixed: workers of one run must collect the same tests


@pytest.mark.parametrize("stranger", ["", "x", NUL, HALF, None, 5, "call-1", (1, 2), str(NOBODY), NOBODY])
async def test_p24_f27_a_call_that_there_is_not_is_refused(stranger: Any, till: Till) -> None:
    chat, [first, _] = await suspended(till)
    async with refused_without_a_trace("resume_invalid"):
        await chat.decide({first: True, stranger: True})
    await is_answerable(chat, till)


async def test_p24_f25_a_call_of_another_thread_is_refused(till: Till) -> None:
    chat, [first, _] = await suspended(till)
    other, [stranger, _] = await suspended(Till(), "other")
    async with refused_without_a_trace("resume_invalid"):
        await chat.decide({first: True, stranger: True})
    async with refused_without_a_trace("resume_invalid"):
        await chat.decide({stranger: False})
    await is_answerable(chat, till)
    assert len((await other.get_current_run() or {})["required_action"]) == 2


async def test_p24_a_call_of_an_earlier_run_is_refused(till: Till) -> None:
    chat, earlier = await suspended(till)
    await chat.approve()
    till.paid.clear()
    await chat.send("Once more")
    for stranger in earlier:
        async with refused_without_a_trace("resume_invalid"):
            await chat.decide({stranger: True})
    await is_answerable(chat, till)


BAD_EDITS: dict[str, Any] = {
    "wrong type": {"amount": "many"}, "missing": {}, "unknown": {"amount": 1, "to": "me"}, "NaN": {"amount": math.nan},
    "deep": {"amount": nested(200)}, "half a pair": {"amount": HALF}, "half a key": {HALF: 1}, "no key": {5: 1},
    **{f"not JSON: {name}": {"amount": value} for name, value in NOT_JSON.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_EDITS)
async def test_edited_arguments_that_do_not_fit_are_refused(name: str, till: Till) -> None:
    chat, [first, second] = await suspended(till)
    edited = {"approve": True, "arguments": BAD_EDITS[name]}
    async with refused_without_a_trace("invalid_arguments"):
        await chat.decide({first: True, second: edited})
    await is_answerable(chat, till)


async def test_f38_a_reason_with_nul_reaches_the_model(till: Till) -> None:
    chat, _ = await suspended(till)
    reply = await chat.reject(NUL)
    assert reply.status == "completed"
    assert all(text.endswith(NUL) for text in results(reply.messages))


@pytest.mark.parametrize("answer", ["approve", "reject", "decide", "retry"])
async def test_p20_p24_nothing_to_answer_and_nothing_to_retry(answer: str) -> None:
    chat = an_agent("Hi", "Ho").thread("t")
    arguments: list[Mapping[str, bool]] = [{str(uuid4()): True}] if answer == "decide" else []
    async with refused_without_a_trace("resume_invalid"):  # a thread that there is not
        await getattr(chat, answer)(*arguments)
    await chat.send("Hello")
    async with refused_without_a_trace("resume_invalid"):
        await getattr(chat, answer)(*arguments)
    assert (await chat.send("Hello")).text == "Ho"


# Events and what describes a thread ----------------------------------------------------------------------------

BAD_EVENTS: dict[str, tuple[Any, ...]] = {
    "no type": ("",), "a long type": ("a" * 51,), "a digit first": ("1a",), "a space": ("a b",), "NUL": ("a\0",),
    "newline": ("a\n",), "a type that is none": (None,), "details that are none": (AN_EVENT, [1]),
    **{f"not JSON: {name}": (AN_EVENT, {"a": value}) for name, value in NOT_JSON.items()},
}  # fmt: skip
BAD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "agent: too long": ({"agent": "a" * 101}, "invalid_event"),
    "agent: NUL": ({"agent": "\0"}, "invalid_event"),
    "agent: half a pair": ({"agent": HALF}, "invalid_event"),
    "agent: none": ({"agent": 5}, "invalid_event"),
    "run: none": ({"run": "x"}, "run_not_found"),
    "run: unknown": ({"run": uuid4()}, "run_not_found"),
    "parent: none": ({"parent": "x"}, "invalid_event"),
    "parent: unknown": ({"parent": uuid4()}, "invalid_event"),
}


@pytest.mark.parametrize("name", [*BAD_EVENTS, *BAD_FIELDS])
async def test_b12_an_event_that_cannot_be_is_refused(name: str) -> None:
    chat = an_agent("Hi", "Ho").thread("t")
    await chat.send("Hello")
    fields, code = BAD_FIELDS.get(name, ({}, "invalid_event"))
    async with refused_without_a_trace(code):
        await chat.create_event(*BAD_EVENTS.get(name, (AN_EVENT,)), **fields)
    assert (await chat.create_event(AN_EVENT))["seq"] == len(await chat.get_events())
    assert (await chat.send("Hello")).text == "Ho"


@pytest.mark.parametrize("name", NOT_JSON)
async def test_a_description_that_cannot_be_is_refused(name: str) -> None:
    chat = an_agent("Hi", "Ho").thread("t")
    await chat.send("Hello")
    for given in ({"title": NOT_JSON[name]}, {"metadata": {"a": NOT_JSON[name]}}, {"title": 5}, {"metadata": [1]}):
        async with refused_without_a_trace("invalid_state"):
            await chat.describe(**given)
    assert (await chat.send("Hello")).text == "Ho"


# An agent that is gone -----------------------------------------------------------------------------------------


def another_handle() -> ThreadHandle:
    """The same thread, seen by the code of another agent."""
    return Agent("other", model=ScriptedModel.of("I am another")).thread("t")


async def test_the_agent_of_a_run_is_gone_and_comes_back() -> None:
    agent = an_agent("", "Done")
    agent.backend.respond = failing  # type: ignore[attr-defined]
    with refused("model_failed"):
        await agent.thread("t").send("Hello")
    unregister("helper")
    other = another_handle()
    for _ in range(2):
        with refused("agent_not_found"):
            await other.retry()
    assert texts(await other.messages()) == ["user: Hello"]
    run = await other.get_current_run()
    assert run is not None
    assert (run["status"], run["error_code"], run["agent"]) == ("failed", "agent_not_found", "helper")
    register(Agent("helper", model=ScriptedModel.of("Here I am")))
    assert (await other.retry()).text == "Here I am"
    unregister("helper")


def failing(*_: Any) -> str:
    raise ValueError("broken")


async def test_the_agent_of_a_suspended_run_is_gone_and_comes_back(till: Till) -> None:
    chat, [first, second] = await suspended(till)
    agent = chat.agent
    unregister("helper")
    other = another_handle()
    async with refused_without_a_trace("agent_not_found"):
        await other.decide({first: {"approve": True, "arguments": {"amount": 5}}, second: True})
    with refused("agent_not_found"):
        await other.approve()  # the answers are on record, and count
    assert till.paid == []
    assert len(await other.messages()) == 2
    register(agent)
    assert (await other.retry()).status == "completed"
    assert sorted(till.paid) == [1, 2]
