"""A page that is read from right to left, and the chat on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browsers import faults
from tests.chat.support import answers, pays, questions, rested, say
from tests.streaming.puppet import wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)

ARABIC = "مرحبا، كيف يمكنني مساعدتك؟"


def middle(locator: Any) -> float:
    """How far from the left its middle is."""
    box = locator.bounding_box()
    return float(box["x"] + box["width"] / 2)


def in_frame(page: Any) -> bool:
    inside = "document.querySelector('criogen-chat').shadowRoot.querySelector('.scroll')"
    return bool(
        page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        and page.evaluate(f"{inside}.scrollWidth <= {inside}.clientWidth")
    )


@pytest.mark.parametrize("width", [900, 360])
def test_f60_the_chat_stands_the_other_way_round(visit: Callable[..., Visitor], width: int) -> None:
    visitor = visit(locale="ar", viewport={"width": width, "height": 800})
    page = visitor.open(language="ar", title="الدعم", welcome=ARABIC, ask=[ARABIC])
    assert page.evaluate("document.documentElement.dir") == "rtl"
    look = {"tool_call": {"name": "look", "arguments": {"n": 7}}}
    say(page, wish([{"text": f"{ARABIC}\n\nAn English sentence."}, look]))
    answers(page).get_by_text("An English sentence.").wait_for()
    rested(page)
    say(page, pays())
    page.get_by_role("button", name="Approve").wait_for()
    centre = middle(page.locator(".panel"))
    assert middle(page.locator(".send")) < middle(page.locator(".field"))
    assert middle(questions(page).first.locator(".body")) < centre
    assert middle(page.locator(".card dt").first) > middle(page.locator(".card dd").first) or width == 360
    call = page.locator(".call summary").first
    assert middle(call.locator(".icon")) > middle(call.locator(".call-name"))
    assert in_frame(page)
    assert not faults(page)
    visitor.picture(f"right-to-left-{width}")


def test_f60_the_launcher_stands_on_the_left(visit: Callable[..., Visitor]) -> None:
    visitor = visit(locale="ar")
    page = visitor.open(language="ar", launcher="1", title="الدعم")
    assert middle(page.locator(".launcher")) < 450
    page.locator(".launcher").click()
    panel = page.locator(".panel").bounding_box()
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= 900
    assert not faults(page)
    visitor.picture("right-to-left-launcher")
