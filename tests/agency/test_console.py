"""The agency in the console: the chain where an approval waits, a turn as a tree, ways between conversations."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from criogen_threads.models import Run, Thread, ToolCall
from tests.agency.chained import Chain
from tests.agency.support import runs_of, threads_of
from tests.api.support import a_user
from tests.console.support import Staff

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def viewer(transactional_db: None) -> Staff:
    return Staff("viewer", "view_transcript", "view_thread", "view_toolcall", "decide_toolcall", "view_run")


@pytest.fixture
def chain(transactional_db: None) -> Chain:
    made = Chain(approval="staff")
    made.agency.create_thread_sync(thread_id="one", actor=a_user("ann"))
    made.agency.entry.thread("one", actor=get_user_model().objects.get(username="ann")).send_sync("go")
    return made


def told(page: str) -> list[str]:
    """The events of a page, each with how far in it stands."""
    rows = re.findall(r'<li class="criogen-depth-(\d)">.*?<strong>(\w+)</strong>', page)
    return [f"{'.' * int(depth)}{name}" for depth, name in rows]


def test_b14_b17_a_turn_is_one_tree_with_durations(chain: Chain, viewer: Staff) -> None:
    call = ToolCall.objects.awaiting_approval().get()
    chain.agency.entry.thread("one").approve_sync()
    run = runs_of("one")[0]
    page = viewer.text(f"thread/{run.thread_id}/runs/{run.pk}/")
    assert told(page) == [
        "run_start", "agent_start", ".message", ".message", ".tool_start", "..run_start", "..agent_start",
        "...message", "...message", "...tool_start", "....run_start", "....agent_start", ".....message",
        ".....message", ".....tool_start", "......tool_complete", ".....message", ".....approval_requested",
        ".....approval_decided", ".....run_start", ".....tool_start", "......tool_complete", ".....message",
        ".....agent_complete", ".....run_complete", "....tool_complete", "...run_start", "...message",
        "...agent_complete", "...run_complete", "..tool_complete", ".run_start", ".message",
        ".agent_complete", ".run_complete",
    ]  # fmt: skip
    assert page.count('class="criogen-lasted"') == 10  # four calls, and three agents and runs that completed
    assert [name for name in ("top", "middle", "deep") if f"<bdi>{name}</bdi>" in page] == ["top", "middle", "deep"]
    assert page.count("Tokens of") == 3
    below = Run.objects.get(pk=call.run_id)
    assert told(viewer.text(f"thread/{below.thread_id}/runs/{below.pk}/"))[:2] == ["run_start", "agent_start"]
    assert viewer.get(f"thread/{run.thread_id}/runs/{below.pk}/").status_code == 404  # of another thread


def test_b17_the_whole_chain_is_in_view_where_an_approval_waits(chain: Chain, viewer: Staff) -> None:
    call = ToolCall.objects.awaiting_approval().get()
    page = viewer.text(f"approval/{call.pk}/change/")
    shown = page.partition('class="criogen-chain"')[2].partition("</ol>")[0]
    assert re.findall(r"<bdi>(\w+)</bdi>", shown) == ["ann", "top", "top", "middle", "middle", "deep"]
    assert re.findall(r"<blockquote[^>]*>(.*?)</blockquote>", shown) == ["go", "Please.", "Please."]
    for run in runs_of("one"):
        assert reverse("admin:criogen_threads_thread_run", args=[run.thread_id, run.pk]) in shown
    assert "middle → deep" in viewer.text("approval/")
    decider = Staff("decider", "decide_toolcall")  # may answer, and not read
    shown = decider.text(f"approval/{call.pk}/change/").partition('class="criogen-chain"')[2].partition("</ol>")[0]
    assert "blockquote" not in shown
    assert "<a " not in shown


def test_the_conversations_of_a_chain_lead_to_each_other(chain: Chain, viewer: Staff) -> None:
    first, middle, deep = threads_of("one")
    page = viewer.text(f"thread/{first.pk}/change/")
    assert f"/thread/{middle.pk}/runs/{middle.current_run_id}/" in page
    call = ToolCall.objects.awaiting_approval().get()
    assert f"/approval/{call.pk}/change/" in page  # what waits below waits here
    assert "Asked from" not in page
    page = viewer.text(f"thread/{deep.pk}/change/")
    assert f'href="/admin/criogen_threads/thread/{middle.pk}/change/"><bdi>{middle.key}</bdi>' in page
    assert "<bdi>top</bdi>" in viewer.text(f"thread/{middle.pk}/runs/")  # asked by


def test_a_run_s_page_is_for_those_who_may_read_it(chain: Chain) -> None:
    run = runs_of("one")[0]
    path = f"thread/{run.thread_id}/runs/{run.pk}/"
    assert Staff("clerk", "decide_toolcall").get(path).status_code == 404
    assert Staff("nobody", staff=False).get(path).status_code == 302


def test_a_run_s_page_takes_a_bounded_number_of_queries(
    chain: Chain, viewer: Staff, django_assert_max_num_queries: Any
) -> None:
    chain.agency.entry.thread("one").approve_sync()
    run = runs_of("one")[0]
    viewer.text(f"thread/{run.thread_id}/runs/{run.pk}/")
    with django_assert_max_num_queries(40):
        viewer.text(f"thread/{run.thread_id}/runs/{run.pk}/")
    assert Thread.objects.count() == 3
