"""C8: the chat on a page of the site, as people use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session

from criogen_threads.models import Checkpoint, Message, Thread, ToolCall
from project.desk.demo import seed
from project.desk.models import Order
from tests.chat.support import answers, aside, conversation, eventually, person, questions, said, say
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


def rested(page: Any) -> None:
    page.get_by_role("button", name="Stop").wait_for(state="detached")


def pays(**arguments: Any) -> str:
    """A wish that needs its owner's approval."""
    asked = {"tool_call": {"name": "pay", "arguments": {"amount": 40, **arguments}}}
    return wish([{"text": "I can pay that."}, asked], "It is settled.")


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


def test_c7_c8_staff_approve_a_refund_and_the_visitor_s_page_goes_on_by_itself(visit: Callable[..., Visitor]) -> None:
    aside(seed)
    visitor, staff = visit(), visit(person(is_staff=True, is_superuser=True))
    page = visitor.open(agent="desk")
    say(page, "I would like a refund of 12 euros for order A-1002")
    card = page.locator(".card")
    card.get_by_text("This waits for the staff").wait_for()
    assert card.get_by_role("button").count() == 0
    desk = staff.page
    desk.goto(f"{staff.address}/admin/criogen_threads/approval/")
    desk.locator("#result_list a", has_text="refund").first.click()
    desk.get_by_role("button", name="Approve").click()
    answers(page).get_by_text("12.00 euros of order A-1002 were refunded").wait_for()
    card.wait_for(state="detached")
    rested(page)
    page.locator("summary", has_text="refund").click()
    page.get_by_text("12.00 euros of order A-1002 were refunded.", exact=True).first.wait_for()
    assert aside(Order.objects.get, number="A-1002").refunded == 12


def test_f57_an_answered_approval_is_not_live_again_after_a_reload(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    other = visitor.open(visitor.tab())
    say(page, pays(card="4111"))
    page.get_by_role("button", name="Approve").wait_for()
    assert "4111" not in page.locator(".card").inner_text()
    other.get_by_role("button", name="Reject").click()
    other.get_by_label("Reason").fill("too much")
    other.get_by_role("button", name="Reject").click()
    for tab in (page, other):
        answers(tab).get_by_text("It is settled.").wait_for()
        tab.locator(".card").wait_for(state="detached")
    visitor.open()
    answers(page).get_by_text("It is settled.").wait_for()
    assert page.locator(".card").count() == 0
    assert page.locator(".call-state").inner_text() == "declined"
    found = aside(ToolCall.objects.get, thread__key=visitor.key)
    assert (found.status, found.reason) == ("rejected", "too much")


def test_f28_who_answers_too_late_is_told_so(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="409 (Conflict)")
    page = visitor.open()
    say(page, pays())
    page.get_by_role("button", name="Approve").wait_for()
    page.route("**/decide/", lambda route: (aside(visitor.handle().reject_sync, "first"), route.continue_()))
    page.get_by_role("button", name="Approve").click()
    answers(page).get_by_text("It is settled.").wait_for()
    assert aside(ToolCall.objects.get, thread__key=visitor.key).status == "rejected"


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


def test_what_was_done_is_not_taken_back_by_an_edit(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="403 (Forbidden)")
    page = visitor.open()
    say(page, pays())
    page.get_by_role("button", name="Approve").click()
    answers(page).get_by_text("It is settled.").wait_for()
    rested(page)
    questions(page).first.hover()
    page.get_by_role("button", name="Edit").click()
    say(page, "something else")
    page.get_by_text("Something was already done after that message").wait_for()
    assert said(visitor.stored())[-1] == ("assistant", "It is settled.")


def test_f50_a_session_that_is_over_is_told_and_the_text_is_kept(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="401 (Unauthorized)")
    page = visitor.open()
    say(page, "one")
    answers(page).get_by_text("You said: one").wait_for()
    aside(Session.objects.filter(session_key=visitor.session).delete)
    say(page, "two")
    page.get_by_text("Your session has ended.").wait_for()
    assert said(visitor.stored()) == [("user", "one"), ("assistant", "You said: one")]
    page.get_by_role("link", name="Sign in again").click()
    page.get_by_label("Username").fill(visitor.user.username)
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Sign in").click()
    page.locator("criogen-chat[ready]").wait_for(state="attached")
    answers(page).get_by_text("You said: one").wait_for()
    assert page.get_by_role("textbox", name="Message").input_value() == "two"
    page.get_by_role("button", name="Send").click()
    answers(page).get_by_text("You said: two").wait_for()


def test_c8_somebody_who_has_not_signed_in_has_a_conversation_and_keeps_it_at_sign_in(
    visit: Callable[..., Visitor],
) -> None:
    visitor = visit(signed_in=False)
    page = visitor.open()
    say(page, "Hello")
    answers(page).get_by_text("You said: Hello").wait_for()
    visitor.open()
    answers(page).get_by_text("You said: Hello").wait_for()
    page.goto(f"{visitor.address}/login/?next=/chat/{visitor.key}/")
    page.get_by_label("Username").fill(visitor.user.username)
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Sign in").click()
    answers(page).get_by_text("You said: Hello").wait_for()
    assert aside(Thread.objects.get, key=visitor.key).owner_id == visitor.user.pk


def test_b18_who_speaks_is_named_where_it_is_not_the_thread_s_agent(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, "one")
    answers(page).get_by_text("You said: one").wait_for()
    submit = "document.querySelector('criogen-chat').chat.submit('tell 40', {agent: 'teller'})"
    page.evaluate(submit)
    answers(page).nth(1).get_by_role("heading", name="Story teller").wait_for()
    visitor.open()
    answers(page).nth(1).get_by_role("heading", name="Story teller").wait_for()
    names = page.locator(".message.assistant .who").evaluate_all("all => all.map(each => each.className)")
    assert names == ["who visually-hidden", "who"]


def test_another_s_conversation_is_refused_and_nothing_of_it_shown(visit: Callable[..., Visitor]) -> None:
    visitor, other = visit(), visit()
    aside(visitor.handle().send_sync, "a secret")
    page = other.open(key=visitor.key)
    page.get_by_text("This page may not open the conversation.").wait_for()
    assert conversation(page) == []


def test_the_focus_goes_to_the_conversation_where_its_button_goes_away(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, pays())
    page.get_by_role("button", name="Approve").focus()
    page.keyboard.press("Enter")
    answers(page).get_by_text("It is settled.").wait_for()
    assert page.evaluate("document.querySelector('criogen-chat').shadowRoot.activeElement.className") == "scroll"


def test_with_the_keyboard_alone(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open(ask=["Hello"])
    page.get_by_role("button", name="Hello").focus()
    page.keyboard.press("Enter")
    answers(page).get_by_text("You said: Hello").wait_for()
    rested(page)
    page.get_by_role("textbox", name="Message").focus()
    page.keyboard.type("first")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second")
    page.keyboard.press("Enter")
    answers(page).get_by_text("second").wait_for()
    assert said(visitor.stored())[2] == ("user", "first\nsecond")
    rested(page)
    page.keyboard.insert_text(pays())
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Approve").wait_for()
    for _ in range(30):  # back from the box to the card
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.querySelector('criogen-chat').shadowRoot.activeElement?.textContent") == "Approve":
            break
    page.keyboard.press("Space")
    answers(page).get_by_text("It is settled.").wait_for()


def test_enter_belongs_to_the_input_method_while_it_composes(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    box = page.get_by_role("textbox", name="Message")
    box.fill("にほん")
    box.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    box.dispatch_event("keydown", {"key": "Enter", "keyCode": 229})
    assert box.input_value() == "にほん"
    assert questions(page).count() == 0
    box.press("Enter")
    answers(page).get_by_text("にほん").wait_for()


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


def test_f30_nothing_is_unseen_in_what_is_to_be_approved(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, wish([{"tool_call": {"name": "wipe", "arguments": {"name": "pay \u202eann\u200b"}}}]))
    card = page.locator(".card")
    card.wait_for()
    assert card.locator(".unseen").all_inner_texts() == ["U+202E", "U+200B"]
    assert card.locator("dd").inner_text() == "pay U+202EannU+200B"


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


def lengthen(key: str, count: int) -> None:
    """Have the conversation so many messages."""
    thread = Thread.objects.select_related("head").get(key=key)
    last = Message.objects.get(pk=thread.head.message_id)
    same: dict[str, Any] = {"thread": thread, "run_id": last.run_id, "agent": "puppet"}
    rows = []
    for position in range(last.position + 1, count + 1):
        content = [{"text": f"message {position}"}]
        last = Message(
            role="user" if position % 2 else "assistant", content=content, parent=last, position=position, **same
        )
        rows.append(last)
    Message.objects.bulk_create(rows, batch_size=500)
    Checkpoint.objects.filter(pk=thread.head_id).update(message=last)


def test_360_pixels_are_enough(visit: Callable[..., Visitor]) -> None:
    visitor = visit(viewport={"width": 360, "height": 640}, has_touch=True)
    page = visitor.open()
    word = "Donaudampfschifffahrtsgesellschaft" * 4
    say(page, wish(f"{word}\n\n| a | b |\n|---|---|\n| {word} | {word} |\n\n`{word}`", "", delay=0))
    answers(page).locator("table").wait_for()
    say(page, pays(card=word))
    page.get_by_role("button", name="Approve").wait_for()
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) == 360
    inside = "document.querySelector('criogen-chat').shadowRoot.querySelector('.scroll')"
    assert page.evaluate(f"{inside}.scrollWidth <= {inside}.clientWidth")
    assert page.get_by_role("button", name="Approve").bounding_box()["height"] >= 40


def test_the_launcher_counts_what_was_not_seen(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open(launcher="1", title="Help")
    opener = page.locator(".launcher")
    assert not page.get_by_role("textbox", name="Message").is_visible()
    opener.click()
    say(page, "one")
    answers(page).get_by_text("You said: one").wait_for()
    page.keyboard.press("Escape")
    assert not page.get_by_role("textbox", name="Message").is_visible()
    assert opener.evaluate("button => button === button.getRootNode().activeElement")
    aside(visitor.handle().send_sync, "two")
    page.locator(".badge", has_text="1").wait_for()
    assert opener.get_attribute("aria-label") == "Open the chat. Unread messages: 1"
    visitor.picture("launcher-closed")
    opener.click()
    page.locator(".mark").get_by_text("New").wait_for()
    assert not page.locator(".badge").is_visible()
    visitor.picture("launcher-open")


def test_a_screen_reader_hears_each_message_once_when_it_is_complete(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open(title="Support")
    page.evaluate("""() => {
        window.heard = [];
        const spoken = document.querySelector("criogen-chat").shadowRoot.querySelector(".visually-hidden[role=status]");
        new MutationObserver(() => heard.push(spoken.textContent)).observe(spoken, { childList: true, subtree: true });
    }""")
    say(page, wish("A sentence that comes in pieces.", chunk=2, delay=0.03))
    answers(page).get_by_text("in pieces.").wait_for()
    rested(page)
    assert page.evaluate("heard") == ["Writing an answer", "puppet: A sentence that comes in pieces."]
    assert page.locator(".messages").evaluate("node => node.closest('[aria-live], [role=log]')") is None


def test_in_german(visit: Callable[..., Visitor]) -> None:
    visitor = visit(locale="de-DE")
    page = visitor.open(language="de")
    page.get_by_role("textbox", name="Nachricht").fill("Hallo")
    page.get_by_role("button", name="Senden").click()
    answers(page).get_by_text("You said: Hallo").wait_for()
    page.get_by_role("button", name="Neu beantworten").wait_for()
    assert settings.LANGUAGE_CODE == "en"
