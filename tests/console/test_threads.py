"""Staff find threads, rewind, retry, cancel and delete."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry

from criogen_threads.models import Checkpoint, Event, Run, Thread, ToolCall
from tests.console.support import (
    Staff,
    clerk,
    completed,
    customer,
    eventually,
    held,
    talked,
    thread,
    told,
)  # fmt: skip
from tests.processes import ROOT
from tests.support import call as asks

pytestmark = pytest.mark.django_db(transaction=True)


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
