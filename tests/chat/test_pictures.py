"""Pictures of the chat, light and dark, wide and narrow; axe finds nothing in any of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from project.desk.demo import seed
from tests.browsers import aside, faults
from tests.chat.support import answers, say
from tests.streaming.puppet import wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)

SIZES = {"wide": {"width": 900, "height": 820}, "narrow": {"width": 360, "height": 740}}
TOLD = """Here is what I found:

## Your order

| Item | Price |
|---|---|
| Kettle | €40.00 |
| Tea, *Earl Grey* | €6.50 |

1. It was **shipped** on Monday.
2. It can be followed [here](https://example.com/follow).

> Delivery takes two to three days.

```python
print("on its way")
```
"""


LOOKS = [("wide", "light"), ("narrow", "dark")]
if "SCREENSHOTS" in os.environ:
    LOOKS = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]


@pytest.fixture(params=LOOKS, ids="-".join)
def look(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param  # type: ignore[no-any-return]


def test_axe_finds_nothing_from_the_welcome_to_the_approval(
    visit: Callable[..., Visitor], look: tuple[str, str]
) -> None:
    size, scheme = look
    name = f"{size}-{scheme}"
    aside(seed)
    visitor = visit(viewport=SIZES[size], color_scheme=scheme)
    options: dict[str, Any] = {
        "agent": "desk", "title": "Support", "welcome": "Hello! How can we help you today?",
        "ask": ["Where is order A-1001?", "I would like a refund", "Please call me back"],
    }  # fmt: skip
    page = visitor.open(**options)
    page.get_by_text("How can we help").wait_for()
    visitor.picture(f"welcome-{name}")
    assert not faults(page)
    page.get_by_role("button", name="Where is order").click()
    answers(page).nth(1).wait_for()
    say(page, "I want a refund of 12 euros for order A-1002")
    page.locator(".card").wait_for()
    visitor.picture(f"approval-{name}")
    assert not faults(page)


def test_axe_finds_nothing_in_an_answer_and_one_s_own_approval(
    visit: Callable[..., Visitor], look: tuple[str, str]
) -> None:
    size, scheme = look
    name = f"{size}-{scheme}"
    visitor = visit(viewport=SIZES[size], color_scheme=scheme)
    page = visitor.open(title="Puppet", welcome="Say something.")
    call = {"tool_call": {"name": "look", "arguments": {"n": 7}}}
    pay = {"tool_call": {"name": "pay", "arguments": {"amount": 40, "card": "4111"}}}
    aside(visitor.handle().send_sync, wish([{"text": "One moment, I look that up."}, call], TOLD))
    answers(page).get_by_text("Your order").wait_for()
    page.locator("summary").first.click()
    visitor.picture(f"answer-{name}")
    assert not faults(page)
    aside(visitor.handle().send_sync, wish([{"text": "I can pay that for you."}, pay], "Paid."))
    page.get_by_role("button", name="Approve").wait_for()
    visitor.picture(f"own-approval-{name}")
    assert not faults(page)


def test_axe_finds_nothing_in_a_launcher_with_a_stopped_answer_versions_and_unread_messages(
    visit: Callable[..., Visitor], look: tuple[str, str]
) -> None:
    size, scheme = look
    name = f"{size}-{scheme}"
    visitor = visit(viewport=SIZES[size], color_scheme=scheme)
    page = visitor.open(title="Puppet", launcher="1")
    assert not faults(page)
    page.get_by_role("button", name="Open the chat").click()
    say(page, "Good morning")
    answers(page).get_by_text("You said: Good morning").wait_for()
    page.get_by_role("button", name="Answer again").click()
    page.get_by_text("2/2").wait_for()
    page.get_by_role("button", name="Stop").wait_for(state="detached")
    page.get_by_role("button", name="Close the chat").click()
    aside(visitor.handle().send_sync, "Is anybody there?")
    page.locator(".badge").wait_for()
    visitor.picture(f"launcher-{name}")
    page.locator(".launcher").click()
    page.locator(".mark").wait_for()
    visitor.picture(f"unread-{name}")
    assert not faults(page)
    tale = "Once upon a time there was a kettle that would not boil, however long one waited. "
    say(page, wish(tale * 9, delay=0.05))
    answers(page).get_by_text("Once upon a time").wait_for()
    page.wait_for_timeout(700)  # some of it for the picture
    visitor.picture(f"streaming-{name}")
    page.get_by_role("button", name="Stop").click()
    page.locator(".note").get_by_text("Stopped.").wait_for()
    visitor.picture(f"stopped-{name}")
    assert not faults(page)
