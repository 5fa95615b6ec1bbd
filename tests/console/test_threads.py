"""C7: staff inspect the history, and rewind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models.functions import Now

from criogen_threads.models import Checkpoint, Event, Run, Thread, ToolCall, Worker
from tests.console.support import Staff, a_waiting_thread, clerk, completed, customer, eventually, thread
from tests.processes import ROOT
from tests.support import call as asks

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = (
    "<script>alert(1)</script> ![x](https://evil.example/p.png) [y](javascript:alert(2)) <img src=x onerror=alert(3)>"
    " \u202e\u2066 ``` </details></li> {{ 7|add:7 }}"
)


def talked(key: str = "one", *answers: Any, text: str = "hello") -> Thread:
    clerk(*(answers or ["Good day."])).thread(key, actor=customer()).send_sync(text)
    return thread(key)


def told(found: Thread) -> list[dict[str, Any]]:
    return [event.details for event in Event.objects.filter(thread=found, type="staff_action").order_by("seq")]


def test_c7_the_list_shows_threads_and_finds_them(viewer: Staff) -> None:
    found = talked()
    Thread.objects.filter(pk=found.pk).update(title="Größe “L”", tokens=1234)
    own = f"owner__id__exact={customer().pk}"
    for query in ("", "q=one", "q=ann", "q=Größe", "q=“L", "status=idle", "agent=clerk", own):
        page = viewer.text(f"thread/?{query}")
        assert f"thread/{found.pk}/change/" in page, query
    for query in ("q=nobody", "status=failed", "status=interrupted", "waiting=yes", "owner__id__exact=999999"):
        assert f"thread/{found.pk}/change/" not in viewer.text(f"thread/?{query}"), query


def test_the_users_page_leads_to_their_threads(boss: Staff) -> None:
    talked()
    page = boss.text(f"/admin/auth/user/{customer().pk}/change/")
    assert f"/admin/criogen_threads/thread/?owner__id__exact={customer().pk}" in page


def test_the_page_of_a_site_s_own_user_model_leads_to_their_threads() -> None:
    command = [sys.executable, "-m", "tests.console.people.site"]
    said = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert (said.returncode, said.stdout.strip()) == (0, "the console works with it"), said.stderr


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


def test_c7_the_history_is_a_tree_and_rewinding_says_what_it_does(boss: Staff) -> None:
    agent = clerk([asks("mail", to="bob")], "Sent.", "Bye.")
    for text in ("hello", "bye"):
        agent.thread("one", actor=customer()).send_sync(text)
    found = thread()
    first = Checkpoint.objects.filter(thread=found).order_by("version")[0]
    tree = boss.text(f"thread/{found.pk}/branches/")
    assert f"rewind/?checkpoint={first.pk}" in tree
    ask = boss.text(f"thread/{found.pk}/rewind/?checkpoint={first.pk}")
    assert "mail" in ask.partition("not undone")[2]
    assert "bye" in ask
    version = thread().version
    boss.post(f"thread/{found.pk}/rewind/", {"checkpoint": str(first.pk), "version": version})
    now = thread()
    assert now.head is not None
    assert (now.head.source, now.head.parent_id) == ("fork", first.pk)
    assert told(now) == [
        {"action": "rewind", "by": "boss", "by_id": str(boss.user.pk), "checkpoint": str(first.pk), "version": 1}
    ]
    assert LogEntry.objects.get().change_message == "rewind"
    after = boss.text(f"thread/{found.pk}/branches/")
    assert "left behind" in after
    assert "a copy of version 1" in after
    older = Checkpoint.objects.filter(thread=found).order_by("-version")[1]
    pair = boss.text(f"thread/{found.pk}/differences/?from={older.pk}&to={now.head.pk}")
    assert "Sent." in pair
    assert "1 message is the same." in pair


def test_f29_a_rewind_says_which_approvals_become_void(call: ToolCall, boss: Staff) -> None:
    first = Checkpoint.objects.order_by("version")[0]
    ask = boss.text(f"thread/{call.thread_id}/rewind/?checkpoint={first.pk}")
    assert f"approval/{call.pk}/change/" in ask
    suspended = Checkpoint.objects.get(status="suspended")
    assert "asked for again" in boss.text(f"thread/{call.thread_id}/rewind/?checkpoint={suspended.pk}")
    boss.post(f"thread/{call.thread_id}/rewind/", {"checkpoint": str(first.pk), "version": thread().version})
    assert ToolCall.objects.get(pk=call.pk).status == "void"


def test_a_rewind_of_a_thread_that_moved_on_is_refused(boss: Staff) -> None:
    found = talked()
    first = Checkpoint.objects.order_by("version")[0]
    response = boss.post(
        f"thread/{found.pk}/rewind/", {"checkpoint": str(first.pk), "version": found.version - 1}, follow=True
    )
    assert "moved on" in response.content.decode()
    assert thread().version == found.version
    foreign = "0198c5a0-0000-7000-8000-000000000000"
    assert boss.get(f"thread/{found.pk}/rewind/?checkpoint={foreign}").status_code == 404


def test_c7_retry_lets_a_failed_run_go_on(boss: Staff) -> None:
    from criogen_threads.errors import CriogenError

    agent = clerk(RuntimeError("no"))
    with pytest.raises(CriogenError):
        agent.thread("one", actor=customer()).send_sync("hello")
    found = thread()
    assert found.status == "failed"
    assert ">Retry<" in boss.text(f"thread/{found.pk}/change/")
    clerk("Here I am.")
    boss.post(f"thread/{found.pk}/retry/")
    completed()
    assert [each["action"] for each in told(found)] == ["retry"]
    assert "Here I am." in boss.text(f"thread/{found.pk}/change/")
    response = boss.post(f"thread/{found.pk}/retry/", follow=True)
    assert '<li class="error">' in response.content.decode()


def test_c7_cancel_stops_exactly_the_run_that_was_shown(call: ToolCall, boss: Staff) -> None:
    other = boss.post(f"thread/{call.thread_id}/cancel/", {"run": "0198c5a0-0000-7000-8000-000000000000"}, follow=True)
    assert "ended already" in other.content.decode()
    assert Run.objects.get().status == "requires_action"
    boss.post(f"thread/{call.thread_id}/cancel/", {"run": str(call.run_id)})
    assert Run.objects.get().error_code == "cancelled"
    assert [each["action"] for each in told(thread())] == ["cancel"]


def test_c7_delete_leaves_nothing_but_the_log(boss: Staff) -> None:
    found = talked()
    assert "cannot be undone" in boss.text(f"thread/{found.pk}/delete/")
    assert Thread.objects.exists()
    boss.post(f"thread/{found.pk}/delete/")
    assert not Thread.objects.exists()
    assert not Event.objects.exists()
    assert LogEntry.objects.get().object_repr == "one"


def test_a_live_thread_is_not_deleted_or_rewound_under_its_run(boss: Staff) -> None:
    found = talked()
    held(found)
    response = boss.post(f"thread/{found.pk}/delete/", follow=True)
    assert "A run is under way" in response.content.decode()
    assert Thread.objects.exists()


def held(found: Thread) -> None:
    """As if another process worked on it."""
    worker = Worker.objects.create(host="there", pid=1, expires_at="2999-01-01T00:00Z")
    Thread.objects.filter(pk=found.pk).update(status="running", holder=worker.pk)


@pytest.mark.parametrize("kind", ["json", "md"])
def test_c7_f55_an_export_is_redacted_and_inert(boss: Staff, kind: str) -> None:
    call = a_waiting_thread(card="4111", note=HOSTILE)
    response = boss.get(f"thread/{call.thread_id}/export.{kind}")
    body = response.content.decode()
    assert "4111" not in body
    assert "[hidden]" in body
    assert "I want my money back" in body
    assert response["Content-Disposition"].startswith("attachment")
    assert [each["action"] for each in told(thread())] == ["export"]
    if kind == "json":
        assert json.loads(body)["approvals"][0]["status"] == "awaiting_approval"
    else:
        from markdown_it import MarkdownIt

        html = MarkdownIt("commonmark", {"html": True}).render(body)
        assert "<script>" not in html
        assert "<img" not in html


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


def test_f32_nothing_waits_for_the_model(boss: Staff) -> None:
    import asyncio

    from criogen_threads.backends.scripted import ScriptedModel

    go: list[bool] = []

    async def respond(messages: Any, tools: Any) -> Any:
        if messages[-1]["role"] == "user":
            return [asks("refund", order="A-1", amount=5)]
        while not go:
            await asyncio.sleep(0.01)
        return "Done."

    clerk(model=ScriptedModel(respond)).thread("one", actor=customer()).send_sync("hi")
    call = ToolCall.objects.get()
    try:
        assert boss.answer(call).status_code == 200
        eventually(lambda: thread().status == "running")
        assert 'data-every="1500"' in boss.text(f"thread/{call.thread_id}/change/")
    finally:
        go.append(True)
    completed()


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
    rows = re.findall(r'<th scope="row" class="criogen-depth-(\d)">(\d)', page)
    assert rows == [("0", "3"), ("0", "1"), ("1", "2"), ("2", "4")]


def test_events_that_end_something_say_how_long_it_took(viewer: Staff) -> None:
    found = talked("one", [asks("look_up", order="A-1")], "ok")
    page = viewer.text(f"thread/{found.pk}/events/")
    ends = Event.objects.filter(thread=found, type__in=["tool_complete", "agent_complete", "run_complete"]).count()
    assert page.count('class="criogen-lasted"') == ends == 3
    assert '<bdi class="criogen-brief">look_up</bdi>' in page
