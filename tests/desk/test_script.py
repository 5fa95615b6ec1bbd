"""What the support desk says without a model."""

from __future__ import annotations

from typing import Any

import pytest

from criogen_threads.backends.base import ToolDefinition
from project.desk.script import respond

TOOLS = [ToolDefinition(name, "", {}) for name in ("look_up_order", "refund", "book_call_back")]
KETTLE = {"order": "A-1001", "item": "kettle", "status": "shipped", "total": "39.90", "refunded": "0.00",
          "refundable": "39.90"}  # fmt: skip
CLOCK = {"order": "A-1004", "item": "clock", "status": "cancelled", "total": "89.00", "refunded": "89.00",
         "refundable": "0.00"}  # fmt: skip


class Talk:
    """A conversation with the script."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def say(self, text: str) -> str:
        self.messages.append({"role": "user", "content": [{"text": text}]})
        return self._answer()

    def result(self, name: str, content: object, *, is_error: bool = False) -> str:
        block = {"id": "call-1", "name": name, "content": content, "is_error": is_error}
        self.messages.append({"role": "tool", "content": [{"tool_result": block}]})
        return self._answer()

    @property
    def calls(self) -> list[tuple[str, dict[str, str]]]:
        """The calls of the last answer."""
        blocks = [block["tool_call"] for block in self.messages[-1]["content"] if "tool_call" in block]
        return [(block["name"], block["arguments"]) for block in blocks]

    def _answer(self) -> str:
        said = respond(self.messages, TOOLS)
        assert said == respond(self.messages, TOOLS)
        blocks = [{"text": said}] if isinstance(said, str) else said
        self.messages.append({"role": "assistant", "content": blocks})
        return " ".join(block["text"] for block in blocks if "text" in block)


def look_up(order: str) -> tuple[str, dict[str, str]]:
    return ("look_up_order", {"order": order})


def test_it_greets_and_remembers_the_name() -> None:
    talk = Talk()
    assert talk.say("Hi, my name is Ada.").startswith("Hello, Ada!")
    assert "Ada" in talk.say("thank you")
    assert not talk.calls


def test_it_looks_an_order_up_and_says_how_it_stands() -> None:
    talk = Talk()
    talk.say("Where is my order a-1001?")
    assert talk.calls == [look_up("A-1001")]
    answer = talk.result("look_up_order", KETTLE)
    assert all(part in answer for part in ("A-1001", "kettle", "39.90", "shipped"))
    assert not talk.calls


def test_it_looks_up_two_orders_at_once() -> None:
    talk = Talk()
    talk.say("What about A-1001 and A-1004?")
    assert talk.calls == [look_up("A-1001"), look_up("A-1004")]


def test_it_looks_before_it_asks_for_a_refund_of_the_whole() -> None:
    talk = Talk()
    talk.say("Please refund A-1001")
    assert talk.calls == [look_up("A-1001")]
    talk.result("look_up_order", KETTLE)
    assert talk.calls == [("refund", {"order": "A-1001", "amount": "39.90"})]
    assert "were refunded" in talk.result("refund", "39.90 euros of order A-1001 were refunded.")


@pytest.mark.parametrize(
    "text", ["refund 12,50 of A-1001", "12.50 EUR back, a refund for A-1001", "Refund €12.50 A-1001"]
)
def test_a_refund_of_a_part(text: str) -> None:
    talk = Talk()
    talk.say(text)
    talk.result("look_up_order", KETTLE)
    assert talk.calls == [("refund", {"order": "A-1001", "amount": "12.50"})]


def test_a_refund_that_is_rejected_is_told() -> None:
    talk = Talk()
    talk.say("refund A-1001")
    talk.result("look_up_order", KETTLE)
    assert "too much" in talk.result("refund", "Rejected: too much", is_error=True)
    assert not talk.calls


def test_nothing_is_left_to_refund() -> None:
    talk = Talk()
    talk.say("refund A-1004")
    assert "in full already" in talk.result("look_up_order", CLOCK)
    assert not talk.calls


def test_it_asks_which_order_and_understands_the_answer() -> None:
    talk = Talk()
    assert talk.say("I want my money back").endswith("?")
    talk.say("A-1001")
    talk.result("look_up_order", KETTLE)
    assert talk.calls == [("refund", {"order": "A-1001", "amount": "39.90"})]


def test_the_order_of_before_is_remembered_and_several_are_asked_about() -> None:
    talk = Talk()
    talk.say("status of A-1001")
    talk.result("look_up_order", KETTLE)
    talk.say("ok, refund it please")
    assert talk.calls == [look_up("A-1001")]
    talk = Talk()
    talk.say("A-1001 and A-1004")
    talk.result("look_up_order", KETTLE)
    assert talk.say("refund it") == "Which of them do you mean: A-1001, A-1004?"


def test_it_collects_what_a_call_back_needs() -> None:
    talk = Talk()
    talk.say("Please call me back")
    talk.say("+49 30 123456")
    assert not talk.calls
    talk.say("tomorrow at 10")
    assert talk.calls == [("book_call_back", {"phone": "+49 30 123456", "when": "tomorrow at 10"})]


def test_a_call_back_in_one_sentence() -> None:
    talk = Talk()
    talk.say("Call me back on Monday in the afternoon at 0170 1234567 about A-1002")
    expected = {"phone": "0170 1234567", "when": "on Monday in the afternoon", "order": "A-1002"}
    assert talk.calls == [("book_call_back", expected)]


def test_an_order_that_does_not_exist() -> None:
    talk = Talk()
    talk.say("refund A-9999")
    assert "There is no order A-9999." in talk.result("look_up_order", "There is no order A-9999.", is_error=True)
    assert not talk.calls


def test_it_offers_what_it_can_when_it_does_not_understand() -> None:
    assert "refund" in Talk().say("blue")


def test_it_calls_only_tools_that_are_there() -> None:
    messages = [{"role": "user", "content": [{"text": "A-1001?"}]}]
    assert respond(messages, []) == "I am sorry, I cannot do that here."
