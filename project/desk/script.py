"""What the support desk says without a model: a few rules about what was said, and nothing else.

``respond`` depends on its arguments alone, like a model: asked again, it says the same again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from criogen_threads.backends.base import Block, ToolDefinition

ORDER = re.compile(r"\b[A-Z]-\d{3,6}\b", re.IGNORECASE)
MONEY = re.compile(
    r"(?:€|\beur(?:os?)?\b)\s*(\d+(?:[.,]\d{1,2})?)|(\d+(?:[.,]\d{1,2})?)\s*(?:€|eur(?:os?)?\b)|\b(\d+[.,]\d{2})\b"
    r"|\brefund\s+(\d+(?:[.,]\d{1,2})?)\b",
    re.IGNORECASE,
)
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
PHONE = re.compile(r"\+?\d[\d /()-]{4,}\d")
WHEN = re.compile(
    r"\b(?:today|tonight|tomorrow|(?:(?:next|this|on) )?(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?:in the )?(?:morning|afternoon|evening)|at noon|at \d{1,2}(?::\d{2})?(?: ?[ap]m\b| ?o'clock)?)",
    re.IGNORECASE,
)
NAME = re.compile(r"\b(?:my name is|i am called|this is)\s+([A-Z][\w'-]+)")
HELLO = re.compile(r"\b(?:hi|hello|hey|good (?:morning|day|afternoon|evening)|my name is)\b", re.IGNORECASE)
TOPICS = {
    "refund": re.compile(r"\brefund|money back|\bgive (?:it )?back\b|\breturn\b|\berstatt", re.IGNORECASE),
    "call": re.compile(
        r"call(?:[ -]?me)?[ -]?back|\b(?:call|phone|ring) me\b|\brufen sie mich|\brückruf", re.IGNORECASE
    ),
    "status": re.compile(r"\bstatus|\bwhere\b|\bwhen\b|\border\b|\btrack|\bdelivery\b", re.IGNORECASE),
    "thanks": re.compile(r"\bthank|\bthat'?s all\b|\bbye\b", re.IGNORECASE),
}
OFFER = "I can tell you where an order is, ask for a refund, or book a call-back."


@dataclass(frozen=True, slots=True)
class Wish:
    """What the customer wants, as far as it was said."""

    topic: str = ""
    orders: tuple[str, ...] = ()
    amount: str = ""
    phone: str = ""
    when: str = ""
    name: str = ""
    unclear: bool = False  # several orders are known, and this time none was named

    def heard(self, text: str) -> Wish:
        """What is new replaces what was known; what was not said again stays."""
        orders = tuple(dict.fromkeys(number.upper() for number in ORDER.findall(text)))
        rest = ORDER.sub(" ", text)
        amount = MONEY.search(rest)
        phone = PHONE.search(DATE.sub(" ", MONEY.sub(" ", rest)))
        rest = rest.replace(phone.group(), " ") if phone else rest
        when = [found.group() for found in sorted([*DATE.finditer(rest), *WHEN.finditer(rest)], key=_place)]
        name = NAME.search(text)
        topic = next((topic for topic, words in TOPICS.items() if words.search(rest)), self.topic)
        otherwise = "status" if orders else "hello" if HELLO.search(text) else ""
        return Wish(
            topic=topic or otherwise,
            orders=orders or self.orders,
            amount=next(filter(None, amount.groups())).replace(",", ".") if amount else self.amount,
            phone=phone.group().strip() if phone else self.phone,
            when=" ".join(when) or self.when,
            name=name.group(1) if name else self.name,
            unclear=not orders and len(self.orders) > 1,
        )

    def settled(self) -> Wish:
        """The matter is closed; who speaks, about what and on which phone is remembered."""
        return replace(self, topic="", amount="", when="")


def respond(messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolDefinition]) -> str | list[Block]:
    """The desk's next answer: text, or text and tool calls.

    Args:
        messages: The conversation in the stored format; the last one is the customer's or a tool's.
        tools: What the desk may call.
    """
    wish = _understand(messages)
    results = _fresh_results(messages)
    answer = _report(wish, results) if results else _attend(wish)
    known = {tool.name for tool in tools}
    if isinstance(answer, list) and not {call["name"] for call in _calls({"content": answer})} <= known:
        return "I am sorry, I cannot do that here."
    return answer


def _understand(messages: Sequence[Mapping[str, Any]]) -> Wish:
    """A question of the desk keeps the matter open; any other words of it close it."""
    wish = Wish()
    for message in messages:
        if message["role"] == "user":
            wish = wish.heard(_text(message))
        elif message["role"] == "assistant" and not _calls(message) and not _text(message).endswith("?"):
            wish = wish.settled()
    return wish


def _attend(wish: Wish) -> str | list[Block]:
    """To what the customer just said."""
    if wish.topic == "thanks":
        return f"You are welcome{_address(wish)}. Come back whenever you like."
    if wish.topic == "call":
        return _book(wish)
    if wish.topic in {"", "hello"}:
        greeting = f"Hello{_address(wish)}! This is the support desk."
        return f"{greeting if wish.topic else 'I am not sure what you mean.'} {OFFER}"
    if not wish.orders:
        return "Its number looks like A-1001. Which order is it?"
    if wish.topic == "refund" and wish.unclear:
        return f"Which of them do you mean: {', '.join(wish.orders)}?"
    opening = "Let me look at " + ("that order." if len(wish.orders) == 1 else "those orders.")
    return [{"text": opening}, *(_ask("look_up_order", order=number) for number in wish.orders)]


def _book(wish: Wish) -> str | list[Block]:
    if not wish.phone:
        return "Gladly. On which number shall we call, and when?"
    if not wish.when:
        return f"When shall we call {wish.phone}?"
    about = {"order": wish.orders[0]} if len(wish.orders) == 1 else {}
    return [{"text": "I book that."}, _ask("book_call_back", phone=wish.phone, when=wish.when, **about)]


def _report(wish: Wish, results: list[Block]) -> str | list[Block]:
    """On what the tools said; after looking up an order that is to be refunded, ask for the refund."""
    refunds: list[Block] = []
    sentences: list[str] = []
    for result in results:
        content = result["content"]
        if result.get("is_error") or not isinstance(content, dict):
            sentences.append(_sentence(result))
        elif wish.topic == "refund" and float(content["refundable"]) > 0:
            amount = wish.amount or content["refundable"]
            refunds.append(_ask("refund", order=content["order"], amount=amount))
            sentences.append(f"I ask for {amount} euros back for the {content['item']}.")
        elif wish.topic == "refund":
            sentences.append(f"Order {content['order']} was refunded in full already.")
        else:
            sentences.append(_status(content))
    said = " ".join(sentences)
    return [{"text": said}, *refunds] if refunds else said


def _status(order: Mapping[str, str]) -> str:
    sentence = f"Order {order['order']}, {order['item']} for {order['total']} euros, is {order['status']}."
    if float(order["refunded"]) > 0:
        sentence += f" {order['refunded']} euros of it were refunded."
    return sentence


def _sentence(result: Block) -> str:
    content = result["content"] if isinstance(result["content"], str) else str(result["content"])
    return f"I am sorry, that did not work: {content}" if result.get("is_error") else f"Done. {content}"


def _fresh_results(messages: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The results since the desk last spoke."""
    results: list[Block] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        results[:0] = [block["tool_result"] for block in message["content"] if "tool_result" in block]
    return results


def _ask(name: str, **arguments: str) -> Block:
    return {"tool_call": {"name": name, "arguments": arguments}}


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [block["tool_call"] for block in message["content"] if "tool_call" in block]


def _text(message: Mapping[str, Any]) -> str:
    return " ".join(block["text"] for block in message["content"] if "text" in block).strip()


def _address(wish: Wish) -> str:
    return f", {wish.name}" if wish.name else ""


def _place(found: re.Match[str]) -> int:
    return found.start()
