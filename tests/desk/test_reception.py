"""The example of several agents: a reception that asks a billing and a travel specialist."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from django.core.management import call_command

from criogen_threads.agents import get_agency
from criogen_threads.models import Run, Thread, ToolCall
from criogen_threads.threads import ThreadHandle
from project.desk import demo
from project.desk.demo import seed
from project.desk.models import Order
from project.desk.talk import people
from tests.support import in_db, results, texts

if TYPE_CHECKING:
    from pathlib import Path

    from django.test import Client
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


async def test_one_wish_for_both_specialists_is_asked_of_both() -> None:
    await in_db(seed)
    chat = await get_agency("reception").create_thread()
    reply = await chat.send("Where is order A-1001, and when is there a train from Berlin to Hamburg?")
    assert reply.text == ("Order A-1001, kettle for 39.90 euros, is shipped. Trains leave at 08:04, 10:04, 14:04.")
    assert set(reply.usage["agents"]) == {"reception", "reception.billing", "reception.travel"}
    assert await in_db(Run.objects.filter(parent_run=reply.run_id).count) == 2


async def test_a_refund_of_the_specialist_waits_for_staff_where_the_customer_speaks() -> None:
    await in_db(seed)
    chat = await get_agency("reception").create_thread()
    reply = await chat.send("I want a refund of 10 euros for A-1002.")
    [waiting] = reply.pending
    assert (waiting["agent"], waiting["name"]) == ("reception.billing", "refund")
    assert (await chat.approve()).text == "Done. 10.00 euros of order A-1002 were refunded."
    assert (await in_db(Order.objects.get, number="A-1002")).refunded == Decimal("10.00")
    assert len(results(await chat.messages())) == 1


async def test_the_travel_specialist_remembers_what_it_was_told() -> None:
    chat = await get_agency("reception").create_thread()
    assert (await chat.send("A trip, please.")).text == "From where to where do you travel?"
    assert "08:04" in (await chat.send("By train from Berlin to Hamburg")).text
    assert "08:04" in (await chat.send("Which trains were that?")).text
    assert "There is no train from Berlin to Paris." in (await chat.send("And a train from Berlin to Paris?")).text
    assert texts(await chat.messages())[-1].startswith("assistant: ")
    assert await in_db(Thread.objects.filter(agent="reception.travel").count) == 1


def test_the_demo_has_conversations_with_the_reception(client: Client, settings: SettingsWrapper) -> None:
    settings.DESK_MODEL = "anthropic:claude"  # offline nevertheless
    seed()
    assert demo.converse() == len(demo.CONVERSATIONS)
    both, trip = Thread.objects.get(key="demo-both"), Thread.objects.get(key="demo-trip")
    assert (trip.status, both.status, both.agent) == ("idle", "suspended", "reception")
    waiting = ToolCall.objects.awaiting_approval().get(thread__parent=both)
    assert (waiting.name, waiting.run.agent) == ("refund", "reception.billing")
    assert "16:30" not in str(answers := get_agency("reception").entry.thread("demo-trip").messages_sync())
    assert "08:04" in str(answers[-1])
    client.force_login(people.visitor())
    listed = client.get("/conversations/").content.decode()
    assert listed.count('href="/conversations/demo-') == len(demo.CONVERSATIONS)
    assert "reception.billing-" not in listed  # none between agents
    assert '"agent": "reception"' in client.get("/conversations/demo-both/").content.decode()
    staff = ThreadHandle("demo-both", agent=get_agency("reception").entry, actor=people.staff())
    assert staff.approve_sync().status == "completed"


@pytest.fixture
def own_log(monkeypatch: pytest.MonkeyPatch, settings: SettingsWrapper) -> None:
    """The command sets up logging and the lease for a process of its own."""
    logger = logging.getLogger("criogen_threads")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", logger.propagate)
    settings.CRIOGEN_THREADS = {}


@pytest.mark.usefixtures("own_log")
def test_the_reception_in_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "said"
    script.write_text("Is there a train from Munich to Berlin?\n")
    call_command("chat", "--agent", "reception", "--thread", "trip", "--script", str(script))
    assert "06:55, 12:55, 17:55" in capsys.readouterr().out
