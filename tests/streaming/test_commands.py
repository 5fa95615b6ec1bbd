"""What a client asks for over the websocket, and what everybody then sees."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Run, ToolCall
from tests.streaming.conftest import person
from tests.streaming.puppet import wish
from tests.streaming.servers import log_in
from tests.streaming.slowness import Stopwatch
from tests.streaming.transcript import stored

if TYPE_CHECKING:
    from tests.streaming.client import Client
    from tests.streaming.conftest import Room
    from tests.streaming.servers import Web

pytestmark = pytest.mark.django_db(transaction=True)

PAY: dict[str, Any] = {"tool_call": {"name": "pay", "arguments": {"amount": 5, "card": "4111"}}}
WIPE: dict[str, Any] = {"tool_call": {"name": "wipe", "arguments": {"name": "logs"}}}
SLOW = wish("word " * 400, delay=0.02, chunk=5)


async def exact(room: Room, *clients: Client) -> None:
    """Every client has what the database has."""
    said = stored(await in_database(reads.messages, room.key))
    for client in clients:
        assert client.transcript.said == said


async def test_f18_f46_a_cancel_is_heard_within_a_second_and_no_token_is_asked_for_afterwards(
    site: list[Web], room: Room
) -> None:
    runner, other = room.client(), room.client()
    await runner.connect(site[0])
    await other.connect(site[1])
    sent = await runner.ask("send", text=SLOW)
    await other.until_event("TEXT_MESSAGE_CONTENT")
    async with Stopwatch() as heard:
        assert (await other.ask("cancel", run=sent["run"]))["stopped"] is True
        await other.until_run_ends(sent["run"])
    assert heard.within(1)
    assert other.transcript.ended[sent["run"]] == "cancelled"
    assert not other.transcript.live  # the half answer is no message
    await exact(room, other)
    frames = len(other.frames)
    await asyncio.sleep(0.2)
    await other.ask("ping")
    assert [frame for frame in other.frames[frames:] if "type" not in frame] == []


async def test_f20_an_old_cancel_does_not_stop_a_newer_run(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    first = await client.ask("send", text=wish("one"))
    await client.until_run_ends(first["run"])
    second = await client.ask("send", text=wish("two " * 20))
    late = await client.ask("cancel", run=first["run"])
    assert (late["type"], late["stopped"]) == ("ack", False)
    assert (await client.ask("cancel"))["code"] == "frame_invalid"  # without a run there is nothing to stop
    await client.until_run_ends(second["run"])
    assert client.transcript.ended[second["run"]] == "success"


async def test_f02_the_busy_strategy_holds_over_the_websocket(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    first = await client.ask("send", text=SLOW)
    await client.until_event("TEXT_MESSAGE_CONTENT")
    assert (await client.ask("send", text=wish("no"), on_busy="reject"))["code"] == "thread_busy"
    assert (await client.ask("rewind", checkpoint=str(room.owner.pk)))["code"] == "checkpoint_not_found"
    waiting = await client.ask("send", text=wish("later"))
    assert [run["id"] for run in (await client.subscribe())["queued"]] == [waiting["run"]]
    urgent = await client.ask("send", text=wish("now"), on_busy="interrupt")
    await client.until_run_ends(waiting["run"])
    assert client.transcript.ended == {
        first["run"]: "cancelled",
        urgent["run"]: "success",
        waiting["run"]: "success",
    }
    await exact(room, client)


async def test_the_same_client_id_is_the_same_run(site: list[Web], room: Room) -> None:
    client = room.client()
    await client.connect(site[0])
    first = await client.ask("send", text=wish("once"), client_id="x")
    again = await client.ask("send", text=wish("once"), client_id="x")
    assert first["run"] == again["run"]
    assert (await client.ask("send", text=wish("other"), client_id="x"))["code"] == "client_id_conflict"
    await client.until_run_ends(first["run"])
    await exact(room, client)


async def test_an_approval_is_shown_answered_and_gone_on_with(site: list[Web], room: Room) -> None:
    owner, watcher = room.client(), room.client()
    await owner.connect(site[0])
    await watcher.connect(site[1])
    sent = await owner.ask("send", text=wish([PAY], "Paid."))
    for client in (owner, watcher):
        await client.until(lambda client=client: client.transcript.state == "suspended")
        assert client.transcript.ended[sent["run"]] == "interrupt"
    (waiting,) = owner.transcript.pending
    assert waiting["mine"] is True
    assert waiting["arguments"] == {"amount": 5, "card": "[hidden]"}
    late = room.client()
    subscribed = await late.connect(site[1])
    assert (subscribed["state"], len(subscribed["pending"])) == ("suspended", 1)
    wrong = await owner.ask("answer", decisions={waiting["id"]: {"approve": True, "digest": "another"}})
    assert wrong["code"] == "resume_invalid"
    done = await owner.ask("answer", decisions={waiting["id"]: {"approve": True, "digest": waiting["digest"]}})
    assert (done["type"], done["run"]) == ("ack", sent["run"])
    for client in (owner, watcher, late):
        await client.until(lambda client=client: client.transcript.ended.get(sent["run"]) == "success")
    assert [(role, text) for role, text, _ in owner.transcript.said][2:] == [("tool", "paid 5"), ("assistant", "Paid.")]
    assert "4111" not in str(owner.frames[2:]).replace(str(PAY), "").replace(wish([PAY], "Paid."), "")


async def test_whoever_asked_does_not_answer_for_the_staff(site: list[Web], room: Room) -> None:
    staff = await in_database(lambda: person(is_staff=True, is_superuser=True))
    owner, other = room.client(), room.client(await in_database(log_in, staff))
    await owner.connect(site[0])
    await other.connect(site[1])
    sent = await owner.ask("send", text=wish([WIPE, PAY], "Gone."))
    for client in (owner, other):
        await client.until(lambda client=client: len(client.transcript.pending) == 2)
    by_name = {each["name"]: each for each in owner.transcript.pending}
    assert {name: each["mine"] for name, each in by_name.items()} == {"wipe": False, "pay": True}
    assert {e["name"]: e["mine"] for e in other.transcript.pending} == {"wipe": True, "pay": False}
    refused = await owner.ask("answer", decisions={by_name["wipe"]["id"]: True})
    assert refused["code"] == "permission_denied"
    assert (await owner.ask("answer", decisions={by_name["pay"]["id"]: False}))["type"] == "ack"
    await owner.until(lambda: len(owner.transcript.pending) == 1)
    assert (await other.ask("answer", decisions={by_name["wipe"]["id"]: True}))["type"] == "ack"
    await owner.until(lambda: owner.transcript.ended.get(sent["run"]) == "success")
    calls = await in_database(lambda: dict(ToolCall.objects.filter(run=sent["run"]).values_list("name", "status")))
    assert calls == {"wipe": "done", "pay": "rejected"}


async def test_a_rewind_takes_every_client_back_and_forth(site: list[Web], room: Room) -> None:
    client, watcher = room.client(), room.client()
    await client.connect(site[0])
    await watcher.connect(site[1])
    for text in ("one", "two", "three"):
        sent = await client.ask("send", text=wish(text))
        await client.until_run_ends(sent["run"])
    history = await room.handle().history()
    ends = [checkpoint["id"] for checkpoint in history if checkpoint["status"] == "completed"]
    back = await client.ask("rewind", checkpoint=ends[-1])
    assert back["checkpoint"]["source"] == "fork"
    sent = await client.ask("send", text=wish("another two"))
    for each in (client, watcher):
        await each.until_run_ends(sent["run"])
    await exact(room, client, watcher)
    assert len(watcher.transcript.said) == 4
    await client.ask("rewind", checkpoint=ends[0])
    await watcher.until_event("CUSTOM", "criogen.rewound")
    await exact(room, watcher)
    assert len(watcher.transcript.said) == 6
    again = await client.ask("send", text=wish("edited"), checkpoint=ends[-1])  # go back and speak in one save
    for each in (client, watcher):
        await each.until_run_ends(again["run"])
    await exact(room, client, watcher)


async def test_a_failed_run_is_retried_and_what_it_left_open_is_closed(site: list[Web], room: Room) -> None:
    client, watcher = room.client(), room.client()
    await client.connect(site[0])
    await watcher.connect(site[1])
    assert (await client.ask("retry"))["code"] == "resume_invalid"
    sent = await client.ask("send", text=wish([{"tool_call": {"name": "pay", "arguments": {"amount": 1}}}], "never"))
    await client.until(lambda: client.transcript.state == "suspended")
    assert (await client.ask("retry"))["code"] == "thread_suspended"
    assert (await client.ask("send", text="hm"))["code"] == "thread_suspended"
    await client.ask("cancel", run=sent["run"])
    await client.until(lambda: client.transcript.ended.get(sent["run"]) == "cancelled")
    assert (await client.ask("retry"))["run"] == sent["run"]
    await client.until(lambda: client.transcript.state == "suspended")
    await client.ask("cancel", run=sent["run"])
    await client.until(lambda: client.transcript.ended.get(sent["run"]) == "cancelled")
    last = await client.ask("send", text="never mind")
    for each in (client, watcher):
        await each.until_run_ends(last["run"])
    await exact(room, client, watcher)
    assert [role for role, *_ in watcher.transcript.said] == ["user", "assistant", "tool", "user", "assistant"]
    assert await in_database(lambda: Run.objects.filter(thread__key=room.key).count()) == 2


async def test_f03_twenty_results_at_once_all_arrive(site: list[Web], room: Room) -> None:
    client, watcher = room.client(), room.client()
    await client.connect(site[0])
    await watcher.connect(site[1])
    calls = [{"tool_call": {"name": "look", "arguments": {"n": n}}} for n in range(20)]
    sent = await client.ask("send", text=wish(calls, "All."))
    for each in (client, watcher):
        await each.until_run_ends(sent["run"])
    await exact(room, client, watcher)
    assert [role for role, *_ in watcher.transcript.said].count("tool") == 20
