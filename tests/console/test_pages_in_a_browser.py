"""Every page with what is hard to show, on a wide screen and on a narrow one: it stays in its frame, axe finds nothing.

``SCREENSHOTS`` takes pictures here, too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils.timezone import now

from criogen_threads.agents import Agency, tool
from criogen_threads.errors import CriogenError
from criogen_threads.models import Checkpoint, Event, Run, Thread, ToolCall
from tests.browsers import aside
from tests.console.support import TOOLS, Staff, clerk, customer, thread
from tests.console.test_browser import desks, pytestmark, scheme  # noqa: F401 (fixtures)
from tests.support import an_agent
from tests.support import call as asks

if TYPE_CHECKING:
    from uuid import UUID

LONG = "Donaudampfschifffahrtsgesellschaftskapitän" * 8
HEBREW = "שלום, אני רוצה את הכסף שלי בחזרה עבור הזמנה A-1 (kettle)"
MARKDOWN = f"""# A title

Some **words**, `code`, and a list:

- one
- two

```python
x = 1  # {"y" * 200}
```

| a | b |
|---|---|
| 1 | {"z" * 150} |
"""
OPEN_ALL = "document.querySelectorAll('.criogen details:not(:has(form))').forEach((each) => { each.open = true; })"
OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WIDTHS = {"wide": 1200, "narrow": 390}


@tool(approval="staff", secrets=["card"], expires_in=3600)
def settle(order: str, amount: int, note: str, card: str, details: dict[str, Any]) -> str:
    """Give money back to the customer, as far as the order's total goes.

    Args:
        order: The order's number.
    """
    return f"refunded {amount} for {order} ({note}, {card}, {details})"


def hard_rows() -> dict[str, UUID]:
    """Conversations with long words, both directions, nested arguments, a failure, a fork, and an empty one."""
    given = {
        "order": LONG, "amount": 240, "note": f"{HEBREW}\n\u202eevil\u200b <b>bold</b>", "card": "4111",
        "details": {"why": ["late", {"days": 3}], "long": LONG},
    }  # fmt: skip
    ask = clerk([asks("look_up", order="A-1")], [asks("settle", **given)], tools=[*TOOLS, settle])
    ask.thread("a-refund", actor=customer()).send_sync(f"{HEBREW}. My kettle broke, I want my money back.")
    call = ToolCall.objects.get(status="awaiting_approval")
    Thread.objects.filter(pk=call.thread_id).update(title=f"Refund {LONG}")
    ToolCall.objects.filter(pk=call.pk).update(expires_at=now() + timedelta(minutes=5))
    down = RuntimeError(f"the provider is down {LONG}")
    agent = clerk(MARKDOWN, [asks("mail", to=LONG)], "Sent.", down, tools=[*TOOLS, settle])
    chat = agent.thread("k" * 200, actor=customer())
    for text in (HEBREW, f"{LONG} please"):
        chat.send_sync(text)
    with pytest.raises(CriogenError):
        chat.send_sync("once more")
    points = Checkpoint.objects.filter(thread__key=chat.id).order_by("version")
    agent.thread(chat.id).rewind_sync(points[3].pk)
    long = thread(chat.id)
    first = Run.objects.filter(thread=long).order_by("number")[0]
    Run.objects.create(
        thread=long, number=99, agent="specialist", parent_run=first, status="completed",
        started_at=now() - timedelta(seconds=3), completed_at=now(), usage={"input_tokens": 500, "output_tokens": 90},
    )  # fmt: skip
    empty = Thread.objects.create(key="empty", agent="clerk")
    asked = a_chain()
    ids = points.values_list("pk", flat=True)
    return {
        "waiting": call.pk,
        "refund": call.thread_id,
        "long": long.pk,
        "empty": empty.pk,
        "asking": Thread.objects.get(key="asking").pk,
        "asked": asked.pk,
        "old": ids[1],
        "new": ids[5],
    }


def a_chain() -> ToolCall:
    """An approval that an asked agent waits for, two levels down."""
    agents = [
        an_agent([asks("delegate", agent="middle", message=f"{HEBREW} {LONG}")], name="top"),
        an_agent([asks("delegate", agent="deep", message=LONG)], name="middle", description=LONG),
        an_agent([asks("refund", order="A-1", amount=5)], name="deep", tools=TOOLS),
    ]
    delegates = {"top": ["middle"], "middle": ["deep"]}
    agency = Agency("chain", entry=agents[0], specialists=agents[1:], delegates=delegates)
    agency.entry.thread("asking", actor=customer()).send_sync(HEBREW)
    return ToolCall.objects.select_related("thread").get(thread__agent="deep", status="awaiting_approval")


def addresses(rows: dict[str, UUID]) -> dict[str, str]:
    approval, console = "/admin/criogen_threads/approval", "/admin/criogen_threads/thread"
    long, empty = f"{console}/{rows['long']}", f"{console}/{rows['empty']}"
    turn = Run.objects.get(thread=rows["asking"])
    last = Event.objects.filter(thread=rows["long"], type="tool_complete")[0]
    return {
        "hard-index": "/admin/",
        "hard-queue": f"{approval}/",
        "hard-approval-asked": f"{approval}/{rows['asked']}/change/",
        "hard-story-asking": f"{console}/{rows['asking']}/change/",
        "hard-run-asking": f"{console}/{rows['asking']}/runs/{turn.pk}/",
        "hard-queue-empty": f"{approval}/?status=rejected",
        "hard-approval": f"{approval}/{rows['waiting']}/change/",
        "hard-threads": f"{console}/",
        "hard-threads-empty": f"{console}/?q=nothing",
        "hard-story-waiting": f"{console}/{rows['refund']}/change/",
        "hard-story": f"{long}/change/",
        "hard-runs": f"{long}/runs/",
        "hard-history": f"{long}/branches/",
        "hard-events": f"{long}/events/?chain={last.pk}",
        "hard-staff-log": f"{long}/history/",
        "hard-differences": f"{long}/differences/?from={rows['old']}&to={rows['new']}",
        "hard-rewind": f"{long}/rewind/?checkpoint={rows['old']}",
        "hard-delete": f"{long}/delete/",
        **{f"empty-{tab}": f"{empty}/{tab}/" for tab in ("change", "runs", "branches", "events")},
    }


@pytest.mark.parametrize("width", WIDTHS)
def test_f55_f60_every_page_keeps_hard_text_in_its_frame(desks: Any, boss: Staff, width: str) -> None:  # noqa: F811
    rows = aside(hard_rows)
    desk = desks(boss, WIDTHS[width])
    for name, address in aside(addresses, rows).items():
        page = desk.go(address)
        page.evaluate(OPEN_ALL)
        desk.looked_at(f"{name}-{width}")
        assert page.evaluate(OVER) <= 0, name


@pytest.mark.parametrize("width", WIDTHS)
def test_f60_every_page_stands_the_other_way_round(desks: Any, boss: Staff, width: str) -> None:  # noqa: F811
    rows = aside(hard_rows)
    desk = desks(boss, WIDTHS[width], locale="ar")
    pages = aside(addresses, rows)
    for name in ("queue", "approval", "threads", "story", "runs", "history", "events"):
        page = desk.go(pages[f"hard-{name}"])
        assert page.evaluate("document.documentElement.dir") == "rtl"
        page.evaluate(OPEN_ALL)
        desk.looked_at(f"arabic-{name}-{width}")
        assert page.evaluate(OVER) <= 0, name
        for gutter in page.locator(".criogen-tree li").all()[:1]:
            drawn, said = (gutter.locator(f".criogen-{part}").bounding_box() for part in ("gutter", "checkpoint"))
            assert drawn["x"] > said["x"]
