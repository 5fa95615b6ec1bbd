"""Keyboards, input methods, screen readers, small screens, the launcher and other languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from tests.browsers import aside
from tests.chat.support import answers, pays, questions, rested, said, say
from tests.streaming.puppet import wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)


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


def test_in_german(visit: Callable[..., Visitor]) -> None:
    visitor = visit(locale="de-DE")
    page = visitor.open(language="de")
    page.get_by_role("textbox", name="Nachricht").fill("Hallo")
    page.get_by_role("button", name="Senden").click()
    answers(page).get_by_text("You said: Hallo").wait_for()
    page.get_by_role("button", name="Neu beantworten").wait_for()
    assert settings.LANGUAGE_CODE == "en"
