"""Every answer and every rewind names who it was: a user, a visitor without an account, or the site's own code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.models import Event, ToolCall
from criogen_threads.visitors import AnonymousVisitor
from tests.api.support import a_user
from tests.console.support import Staff, clerk, customer, thread
from tests.support import call as asks

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)

VISITOR = AnonymousVisitor("v" * 64, "192.0.2.1")


@tool(approval="owner")
def pay(amount: int) -> str:
    """Pay something."""
    return f"paid {amount}"


@pytest.fixture(autouse=True)
def visitors(site: None, settings: Any) -> None:
    settings.CRIOGEN_THREADS = {**settings.CRIOGEN_THREADS, "VISITOR_AGENTS": ["clerk"]}


def answered(actor: Any, by: Any, approve: bool = True) -> ToolCall:
    """A call in a conversation of an actor's, answered by another."""
    agent = clerk([asks("pay", amount=3)], "Done.", tools=[pay])
    agent.thread("one", actor=actor).send_sync("pay")
    chat = agent.thread("one", actor=by)
    if approve:
        chat.approve_sync()
    else:
        chat.reject_sync("no")
    return ToolCall.objects.get()


PEOPLE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str]] = {
    "owner": (customer, lambda owner: owner, "ann"),
    "visitor": (lambda: VISITOR, lambda owner: owner, "a visitor"),
    "site for a visitor": (lambda: VISITOR, lambda owner: None, "the site"),
    "site": (customer, lambda owner: None, "the site"),
}


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("who", PEOPLE)
def test_who_answered_is_named_on_every_page(boss: Staff, who: str, approve: bool) -> None:
    owner, by, name = PEOPLE[who]
    actor = owner()
    call = answered(actor, by(actor), approve)
    verb = "approved" if approve else "rejected"
    said = f"{verb} by {name}, "
    assert said in boss.text(f"approval/?status={verb}")
    assert said in boss.text(f"approval/{call.pk}/change/")
    assert said in boss.text(f"thread/{call.thread_id}/change/")
    events = boss.text(f"thread/{call.thread_id}/events/")
    assert f'<bdi class="criogen-brief">pay{"" if name == "the site" else f" {name}"}</bdi>' in events


def test_an_answer_of_somebody_who_is_gone_is_not_the_site_s(boss: Staff) -> None:
    user = a_user("carl")
    call = answered(user, user)
    ToolCall.objects.filter(pk=call.pk).update(decided_by=None)  # what the deletion of the account leaves
    assert "approved by somebody, " in boss.text(f"approval/{call.pk}/change/")


@pytest.mark.parametrize("who", ["owner", "visitor", "site"])
def test_f28_every_rewind_says_who(boss: Staff, who: str) -> None:
    actor = {"owner": customer(), "visitor": VISITOR, "site": None}[who]
    chat = clerk("one", "two").thread("one", actor=actor)
    chat.send_sync("a")
    first = chat.history_sync()[-1]["id"]
    chat.rewind_sync(first)
    details = Event.objects.get(type="checkpoint_fork").details
    named = {"owner": {"rewound_by": str(customer().pk)}, "visitor": {"visitor": True}, "site": {}}[who]
    assert {name: details[name] for name in details if name not in ("from", "to")} == named
    brief = {"owner": "ann", "visitor": "a visitor", "site": ""}[who]
    page = boss.text(f"thread/{thread().pk}/events/")
    assert not brief or f'<bdi class="criogen-brief">{brief}</bdi>' in page


def test_staff_who_rewind_in_the_admin_are_named(boss: Staff) -> None:
    clerk("one").thread("one", actor=customer()).send_sync("a")
    found = thread()
    first = found.checkpoints.order_by("version")[0]
    boss.post(f"thread/{found.pk}/rewind/", {"checkpoint": str(first.pk), "version": str(found.version)})
    assert (Event.objects.get(type="checkpoint_fork").details or {})["rewound_by"] == str(boss.user.pk)


def test_the_list_says_whose_a_thread_is(boss: Staff) -> None:
    agent = clerk("a", "b", "c")
    for key, actor in (("of-ann", customer()), ("of-nobody", None), ("of-a-visitor", VISITOR)):
        agent.thread(key, actor=actor).send_sync("hello")
    page = boss.text("thread/")
    shown = [row.partition("</td>")[0] for row in page.split('class="field-whose">')[1:]]
    assert shown == ["a visitor", "nobody", "ann"]
