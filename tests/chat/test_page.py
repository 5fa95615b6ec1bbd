"""C8: the chat on a page of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chat.support import answers, questions, say
from tests.streaming.puppet import wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)


def test_c8_a_first_message_is_answered_on_the_page(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open(welcome="How can we help?", ask=["Hello"])
    page.get_by_role("button", name="Hello").click()
    answers(page).get_by_text("You said: Hello").wait_for()
    say(page, wish("**Well** done."))
    answers(page).locator("strong", has_text="Well").wait_for()
    assert questions(page).count() == answers(page).count() == 2
    assert [each["role"] for each in visitor.stored()] == ["user", "assistant"] * 2
