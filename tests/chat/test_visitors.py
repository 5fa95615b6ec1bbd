"""Whose conversation it is: sessions that end, visitors who sign in, and strangers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.sessions.models import Session

from criogen_threads.models import Thread
from tests.browsers import aside
from tests.chat.support import answers, conversation, said, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)


def test_f50_a_session_that_is_over_is_told_and_the_text_is_kept(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="401 (Unauthorized)")
    page = visitor.open()
    say(page, "one")
    answers(page).get_by_text("You said: one").wait_for()
    aside(Session.objects.filter(session_key=visitor.session).delete)
    page.evaluate("document.querySelector('criogen-chat').config.login += '?from=chat'")  # LOGIN_URL may have a query
    say(page, "two")
    page.get_by_text("Your session has ended.").wait_for()
    link = page.get_by_role("link", name="Sign in again")
    assert parse_qs(urlsplit(link.get_attribute("href")).query)["from"] == ["chat"]
    assert said(visitor.stored()) == [("user", "one"), ("assistant", "You said: one")]
    link.click()
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


def test_another_s_conversation_is_refused_and_nothing_of_it_shown(visit: Callable[..., Visitor]) -> None:
    visitor, other = visit(), visit()
    aside(visitor.handle().send_sync, "a secret")
    page = other.open(key=visitor.key)
    page.get_by_text("This page may not open the conversation.").wait_for()
    assert conversation(page) == []
