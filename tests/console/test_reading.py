"""Staff read a thread: its story, its runs, its events, and what is hostile in them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db.models.functions import Now

from criogen_threads.models import Checkpoint, Event, Run, Thread, ToolCall, Worker
from tests.console.support import HOSTILE, Staff, a_waiting_thread, clerk, customer, held, talked, thread
from tests.support import call as asks

pytestmark = pytest.mark.django_db(transaction=True)


def test_c7_the_story_folds_calls_with_their_results(viewer: Staff) -> None:
    found = talked("one", [asks("look_up", order="A-1")], "It is **paid**.")
    page = viewer.text(f"thread/{found.pk}/change/")
    assert page.count('class="criogen-entry') == 3  # the result stands inside its call
    assert "<details" in page
    assert "A-1: paid" in page
    assert "It is <strong>paid</strong>." in page


def test_long_conversations_come_in_pages(viewer: Staff) -> None:
    agent = clerk(*[f"answer {n}" for n in range(40)])
    handle = agent.thread("one", actor=customer())
    for n in range(40):
        handle.send_sync(f"question {n}.")
    found = thread()
    page = viewer.text(f"thread/{found.pk}/change/")
    assert "question 39." in page
    assert "question 3." not in page
    earlier = page.partition("?before=")[2].partition('"')[0]
    assert "question 3." in viewer.text(f"thread/{found.pk}/change/?before={earlier}")
    assert "Earlier runs" in viewer.text(f"thread/{found.pk}/runs/")
    assert "Later events" in viewer.text(f"thread/{found.pk}/events/")


LIVE = (
    "<script>alert", "<img src=x", 'href="javascript:', 'src="https://evil', "\u202e", "\u2066", "onerror=alert(3)>",
)  # fmt: skip


def hostile_rows() -> dict[str, Any]:
    """Everything that a model, a tool or a person can write is hostile: texts, names, titles, errors, reasons."""
    call = a_waiting_thread("waits", note=HOSTILE, order=HOSTILE)
    Event.objects.create(thread=call.thread, seq=999, type="note", agent=HOSTILE[:100], details={HOSTILE: [HOSTILE]})
    mail = [asks("mail", to=HOSTILE), asks(HOSTILE[:100], x=HOSTILE)]
    found = talked("one", mail, HOSTILE, text=HOSTILE)
    Thread.objects.update(title=HOSTILE)
    Run.objects.filter(thread=found).update(error_code="model_failed", error_message=HOSTILE)
    Thread.objects.filter(pk=found.pk).update(status="failed")
    type(customer()).objects.filter(pk=customer().pk).update(username=HOSTILE[:150])
    points = Checkpoint.objects.filter(thread=found).order_by("version")
    first, last = points[0], points[len(points) - 1]
    return {
        "thread": found.pk, "call": call.pk, "waits": call.thread_id, "first": first.pk, "last": last.pk,
        "message": last.message_id,
    }  # fmt: skip


def test_f55_f56_f57_hostile_text_is_only_text_on_every_page(boss: Staff) -> None:
    here = hostile_rows()
    tabs = ("change", "live", "runs", "branches", "events", "history", "delete")
    pages = [
        "thread/", "thread/?q=script", "approval/", "approval/?status=all", "approval/{call}/change/",
        "approval/{call}/live/", "thread/{waits}/change/", "thread/{waits}/events/",
        "thread/{thread}/rewind/?checkpoint={first}", "thread/{thread}/differences/?from={first}&to={last}",
        "thread/{thread}/messages/{message}/", *(f"thread/{{thread}}/{tab}/" for tab in tabs),
    ]  # fmt: skip
    for address in pages:
        page = boss.text(address.format(**here))
        for live in LIVE:
            assert live not in page, (address, live)
        assert "{{ 7" not in page or "14" not in page.partition("{{ 7")[2][:20]
    boss.answer(ToolCall.objects.get(pk=here["call"]), "reject", reason=HOSTILE)
    answered = boss.text(f"approval/{here['call']}/change/")
    assert not [live for live in LIVE if live in answered]


def test_megabytes_are_cut_in_the_story_and_whole_on_their_own_page(viewer: Staff) -> None:
    found = talked("one", "ok", text="y" * 1_000_000)
    page = viewer.text(f"thread/{found.pk}/change/")
    assert len(page) < 200_000
    assert "980,000 more characters" in page or "980000 more characters" in page
    whole = page.partition("/messages/")[2].partition("/")[0]
    assert "y" * 1_000_000 in viewer.text(f"thread/{found.pk}/messages/{whole}/")
    for other in ("runs", "branches", "events", "live"):
        assert len(viewer.text(f"thread/{found.pk}/{other}/")) < 200_000


def test_f30_a_megabyte_is_shown_in_full_where_somebody_decides(boss: Staff) -> None:
    call = a_waiting_thread(note="y" * 1_000_000)
    assert "y" * 1_000_000 in boss.text(f"approval/{call.pk}/change/")
    assert len(boss.text("approval/")) < 200_000


def test_the_story_follows_a_live_thread_and_says_304_while_nothing_changes(viewer: Staff) -> None:
    found = talked()
    first = viewer.get(f"thread/{found.pk}/live/")
    again = viewer.get(f"thread/{found.pk}/live/", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    held(found)
    live = viewer.get(f"thread/{found.pk}/live/", headers={"If-None-Match": first["ETag"]})
    assert live.status_code == 200
    assert 'data-every="1500"' in live.content.decode()
    assert "<form" not in live.content.decode()
    Worker.objects.update(expires_at=Now())
    assert "interrupted" in viewer.text(f"thread/{found.pk}/live/")


def test_events_stand_below_what_they_follow_from(viewer: Staff) -> None:
    found = talked("one", [asks("look_up", order="A-1")], "ok")
    page = viewer.text(f"thread/{found.pk}/events/")
    for shown in ("run_start", "tool_complete", "criogen-depth-1"):
        assert shown in page
    last = Event.objects.get(type="tool_complete")
    assert "TOOL_COMPLETE - Agent: clerk" in viewer.text(f"thread/{found.pk}/events/?chain={last.pk}")


def test_b17_runs_stand_below_the_run_that_began_them(viewer: Staff) -> None:
    found = talked()
    first = Run.objects.get()
    child = Run.objects.create(thread=found, number=2, agent="specialist", parent_run=first)
    Run.objects.create(thread=found, number=3, agent="clerk")
    Run.objects.create(thread=found, number=4, agent="deeper", parent_run=child)
    page = viewer.text(f"thread/{found.pk}/runs/")
    rows = re.findall(r'<th scope="row" class="criogen-depth-(\d)"><a href="[^"]*">(\d)', page)
    assert rows == [("0", "3"), ("0", "1"), ("1", "2"), ("2", "4")]


def test_events_that_end_something_say_how_long_it_took(viewer: Staff) -> None:
    found = talked("one", [asks("look_up", order="A-1")], "ok")
    page = viewer.text(f"thread/{found.pk}/events/")
    ends = Event.objects.filter(thread=found, type__in=["tool_complete", "agent_complete", "run_complete"]).count()
    assert page.count('class="criogen-lasted"') == ends == 3
    assert '<bdi class="criogen-brief">look_up</bdi>' in page
