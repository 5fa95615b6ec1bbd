"""The chat on a page of the site, as people use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browsers import aside, settled
from tests.chat.support import answers, conversation, eventually, questions, rested, said, say
from tests.lengthen import lengthen
from tests.streaming.puppet import puppet, wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = (
    "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
    "![x](http://127.0.0.1:9/leak.png?a) [click](javascript:window.hacked=1) <iframe src='http://127.0.0.1:9/'></iframe>"
    '<svg onload="window.hacked=1"> </script><script>window.hacked=1</script>'
)


def test_c8_a_first_message_is_answered_on_the_page(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open(welcome="How can we help?", ask=["Hello"])
    page.get_by_text("How can we help?").wait_for()
    page.get_by_role("button", name="Hello").click()
    answers(page).get_by_text("You said: Hello").wait_for()
    assert not page.get_by_text("How can we help?").is_visible()
    say(page, wish("**Well** done."))
    answers(page).locator("strong", has_text="Well").wait_for()
    assert questions(page).count() == answers(page).count() == 2
    assert [each["role"] for each in visitor.stored()] == ["user", "assistant"] * 2


def test_a_message_is_edited_and_its_versions_can_be_seen(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    for text in ("one", "two"):
        say(page, text)
        answers(page).get_by_text(f"You said: {text}").wait_for()
        rested(page)
    questions(page).first.hover()
    questions(page).first.get_by_role("button", name="Edit").click()
    box = page.get_by_role("textbox", name="Message")
    assert box.input_value() == "one"
    page.get_by_text("You are editing").wait_for()
    box.fill("three")
    box.press("Enter")
    answers(page).get_by_text("You said: three").wait_for()
    assert conversation(page) == said(visitor.stored()) == [("user", "three"), ("assistant", "You said: three")]
    page.get_by_text("2/2").wait_for()
    page.get_by_role("button", name="Previous version").click()
    answers(page).get_by_text("You said: two").wait_for()
    page.get_by_text("1/2").wait_for()
    assert conversation(page) == said(visitor.stored())
    visitor.open()
    page.get_by_role("button", name="Next version").click()
    answers(page).get_by_text("You said: three").wait_for()


def test_an_answer_is_given_again(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, "one")
    answers(page).get_by_text("You said: one").wait_for()
    page.get_by_role("button", name="Answer again").click()
    answers(page).get_by_text("2/2").wait_for()
    rested(page)
    assert conversation(page) == said(visitor.stored()) == [("user", "one"), ("assistant", "You said: one")]


def test_b18_who_speaks_is_named_where_it_is_not_the_thread_s_agent(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, "one")
    answers(page).get_by_text("You said: one").wait_for()
    submit = "document.querySelector('criogen-chat').chat.submit('tell 40', {agent: 'teller'})"
    settled(page, submit)
    answers(page).nth(1).get_by_role("heading", name="Story teller").wait_for()
    visitor.open()
    answers(page).nth(1).get_by_role("heading", name="Story teller").wait_for()
    names = page.locator(".message.assistant .who").evaluate_all("all => all.map(each => each.className)")
    assert names == ["who visually-hidden", "who"]


def test_f55_f56_what_anybody_wrote_does_nothing(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    page = visitor.open(title=HOSTILE, welcome=HOSTILE, ask=[HOSTILE])
    look = {"tool_call": {"name": "look", "arguments": {"n": HOSTILE}}}
    unknown = {"tool_call": {"name": HOSTILE[:60], "arguments": {HOSTILE: HOSTILE}}}
    wipe = {"tool_call": {"name": "wipe", "arguments": {"name": HOSTILE}}}
    page.locator(".welcome button").click()
    answers(page).get_by_text("window.hacked").first.wait_for()
    rested(page)
    say(page, wish([{"text": HOSTILE}, look, unknown], [{"text": HOSTILE}, wipe], HOSTILE))
    page.locator(".card").get_by_text("<script>window.hacked=1</script>").wait_for()
    for summary in page.locator("summary").all():
        summary.click()
    page.locator("pre").get_by_text("<script>window.hacked=1</script>").first.wait_for()
    aside(puppet().thread(visitor.key).reject_sync, HOSTILE)
    page.locator(".card").wait_for(state="detached")
    rested(page)
    visitor.open(title=HOSTILE, welcome=HOSTILE)
    answers(page).nth(3).wait_for()
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("window.hacked") is None
    assert all(url.startswith((visitor.address, "ws://127.0.0.1")) for url in asked), asked
    inside = "document.querySelector('criogen-chat').shadowRoot"
    assert page.evaluate(f"{inside}.querySelectorAll('img, script, iframe, [onerror], [onload]').length") == 0
    links = page.evaluate(f"[...{inside}.querySelectorAll('.body a')].map(each => each.getAttribute('href') ?? '')")
    assert not [link for link in links if link.startswith("javascript")]


def test_a_conversation_of_2000_messages_is_read_page_by_page(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    aside(visitor.handle().send_sync, "the first")
    aside(lengthen, visitor.key, 2000)
    page = visitor.open()
    answers(page).get_by_text("message 2000", exact=True).wait_for()
    assert len(conversation(page)) == 50
    messages, count = page.locator(".message"), 50
    while count < 2000:
        held = page.evaluate(HELD)
        page.locator(".scroll").evaluate("node => node.scrollTop = 0")
        eventually(lambda count=count: page.wait_for_timeout(20) or messages.count() > count)
        assert page.evaluate("text => window.held(text)", held), "what was looked at is there still"
        count = messages.count()
    assert [text for _, text in conversation(page)] == [text for _, text in said(visitor.stored())]
    drawn = "each => each.checkVisibility({contentVisibilityAuto: true})"
    laid_out = page.locator(".message .body").evaluate_all(f"all => all.filter({drawn}).length")
    assert laid_out < 200, "only what is near is laid out"


HELD = """() => {
    const root = document.querySelector("criogen-chat").shadowRoot;
    window.held = (text) => [...root.querySelectorAll(".body")].some((each) => each.textContent === text);
    return root.querySelector(".body").textContent;
}"""


def test_an_element_that_moves_has_one_socket_and_one_that_leaves_has_none(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.page.add_init_script(SOCKETS)
    page = visitor.open()
    say(page, "one")
    answers(page).get_by_text("You said: one").wait_for()
    page.evaluate("() => { for (const _ of [1, 2, 3]) document.body.append(document.querySelector('criogen-chat')); }")
    connected = "document.querySelector('criogen-chat').chat.connection === 'open'"
    eventually(lambda: page.wait_for_timeout(25) or page.evaluate(connected))
    assert page.evaluate("sockets.length") == 2, "the first one's, and one for where it stands now"
    say(page, "two")
    answers(page).get_by_text("You said: two").wait_for()
    settled(page, LEAVES)
    closed = "sockets.every(each => each.readyState === WebSocket.CLOSED)"
    eventually(lambda: page.wait_for_timeout(25) or page.evaluate(closed))


LEAVES = """async () => {
    const element = document.querySelector("criogen-chat");
    document.body.append(element);
    const connecting = element.chat.connecting;
    element.remove();
    await connecting;
}"""
SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
  constructor(...values) {
    super(...values);
    sockets.push(this);
  }
};
"""
