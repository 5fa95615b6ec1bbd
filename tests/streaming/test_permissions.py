"""Every frame of the websocket against everybody who might send it, and what each is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission
from websockets.exceptions import ConnectionClosed

from criogen_threads.engine.pools import in_database
from criogen_threads.streaming.commands import COMMANDS
from criogen_threads.streaming.consumers import ThreadConsumer
from tests.streaming.conftest import person
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, log_in

if TYPE_CHECKING:
    from tests.streaming.client import Client
    from tests.streaming.conftest import Room

pytestmark = pytest.mark.django_db(transaction=True)

CLOSED, DENIED, OK = "closed", "permission_denied", "ack"
WHO = ("anonymous", "stranger", "owner", "viewing staff", "approving staff", "superuser")
FRAMES: dict[str, tuple[str, ...]] = {
    "subscribe": (CLOSED, CLOSED, "subscribed", "subscribed", "subscribed", "subscribed"),
    "send": (CLOSED, CLOSED, "thread_suspended", DENIED, DENIED, DENIED),
    "answer": (CLOSED, CLOSED, DENIED, DENIED, OK, OK),
    "retry": (CLOSED, CLOSED, "thread_suspended", DENIED, DENIED, "thread_suspended"),
    "rewind": (CLOSED, CLOSED, "checkpoint_not_found", DENIED, DENIED, "checkpoint_not_found"),
    "cancel": (CLOSED, CLOSED, OK, DENIED, DENIED, OK),
    "hello": (CLOSED, CLOSED, "hello", "hello", "hello", "hello"),
    "ping": (CLOSED, CLOSED, "pong", "pong", "pong", "pong"),
    "ack": (CLOSED, CLOSED, "frame_invalid", "frame_invalid", "frame_invalid", "frame_invalid"),  # of no page
}


def test_the_table_names_every_frame() -> None:
    assert {*FRAMES, "pong"} == {*COMMANDS, *ThreadConsumer._OWN}  # a pong is not answered


async def session_of(who: str, room: Room) -> str:
    def make() -> str:
        if who == "anonymous":
            return ""
        if who == "owner":
            return room.session
        user = person(is_staff="staff" in who or who == "superuser", is_superuser=who == "superuser")
        names = {"viewing staff": ["view_transcript"], "approving staff": ["view_transcript", "decide_toolcall"]}
        user.user_permissions.set(Permission.objects.filter(codename__in=names.get(who, [])))
        return log_in(user)

    return await in_database(make)


async def outcome(client: Client, web: Web, frame: str, values: dict[str, Any]) -> str:
    try:
        await client.open(web)
        answer = await client.ask(frame, **values)
    except ConnectionClosed:
        return CLOSED
    return str(answer.get("code") or answer["type"])


@pytest.mark.parametrize("frame", FRAMES)
async def test_who_may_send_what(site: list[Web], room: Room, frame: str) -> None:
    owner = room.client()
    await owner.connect(site[0])
    wipe = {"tool_call": {"name": "wipe", "arguments": {"name": "x"}}}
    found = []
    for who in WHO:
        sent = await owner.ask("send", text=wish([wipe], "done"))
        await owner.until(lambda: owner.transcript.state == "suspended" and owner.transcript.pending)
        values = {
            "send": {"text": "hello"},
            "answer": {"decisions": {owner.transcript.pending[0]["id"]: True}},
            "rewind": {"checkpoint": str(uuid4())},
            "cancel": {"run": sent["run"]},
        }.get(frame, {})
        client = room.client(await session_of(who, room))
        found.append(await outcome(client, site[1], frame, values))
        await owner.ask("cancel", run=sent["run"])
        await owner.until(lambda run=sent["run"]: owner.transcript.ended.get(run) in ("cancelled", "success"))
        owner.transcript.state = ""
    assert tuple(found) == FRAMES[frame]


SHOWN = {  # what the owner and staff see of the arguments and the results of each tool
    "look": ({"n": 1}, "Number 1", {"n": 1}, "Number 1"),
    "rate": ({}, "", {"what": "w"}, "rated: w"),
    "inspect": (None, None, {"what": "w"}, "behind the curtain: w"),
}


async def test_what_tools_hide_is_hidden_in_the_feed_live_and_replayed(site: list[Web], room: Room) -> None:
    staff_session = await session_of("viewing staff", room)
    owner, staff = room.client(), room.client(staff_session)
    await owner.connect(site[0])
    await staff.connect(site[1])
    calls = [
        {"tool_call": {"name": name, "arguments": {"n": 1} if name == "look" else {"what": "w"}}} for name in SHOWN
    ]
    sent = await owner.ask("send", text=wish([{"text": "t"}, *calls], "done"))
    for client in (owner, staff):
        await client.until_run_ends(sent["run"])
    late = room.client()
    await late.connect(site[1])
    await late.until_run_ends(sent["run"])
    for client, side in ((owner, 0), (late, 0), (staff, 2)):
        said = dict(client.transcript.said[1][2])
        results = [text for role, text, _ in client.transcript.said if role == "tool"]
        for name, expected in SHOWN.items():
            arguments, result = expected[side : side + 2]
            if arguments is None:
                assert name not in said
            else:
                assert said[name] == str(arguments).replace("'", '"').replace(": ", ":")
            assert result in (None, "") or any(text.startswith(result) for text in results)
        heard = str([frame for frame in client.frames if "events" in frame]).replace(repr(wish("x"))[:0], "")
        spoken = heard.count("behind the curtain")
        assert (spoken > 0) == (side == 2)
