"""The AG-UI endpoint: what it takes, what it refuses, and the unmodified npm clients on it."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from criogen_threads.engine import reads
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Run, ToolCall
from tests.streaming.conftest import person
from tests.streaming.puppet import wish
from tests.streaming.servers import Web, cookie, log_in
from tests.streaming.transcript import stored

if TYPE_CHECKING:
    from tests.streaming.conftest import Room

pytestmark = pytest.mark.django_db(transaction=True)

NPM = Path(__file__).parent / "npm"
TOKEN = "a" * 32
PAY = {"tool_call": {"name": "pay", "arguments": {"amount": 5}}}
WIPE = {"tool_call": {"name": "wipe", "arguments": {"name": "logs"}}}
SLOW = wish("word " * 400, delay=0.02, chunk=5)


def headers(session: str) -> dict[str, str]:
    own = cookie(session)["Cookie"] if session else "x=y"
    return {"Cookie": f"{own}; csrftoken={TOKEN}", "X-CSRFToken": TOKEN, "Content-Type": "application/json"}


def body(key: str, *messages: str, run: str = "", **values: Any) -> dict[str, Any]:
    said = [{"id": str(uuid4()), "role": "user", "content": text} for text in messages]
    return {"threadId": key, "runId": run or str(uuid4()), "messages": said, "protocolVersion": "1.0", **values}


def post(web: Web, given: Any, session: str, agent: str = "puppet", **extra: str) -> tuple[int, Any]:
    """The status, and the events or the problem."""
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    sent = given if isinstance(given, bytes) else json.dumps(given)
    connection.request("POST", f"/api/agui/{agent}/", sent, {**headers(session), **extra})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    if response.getheader("Content-Type") != "text/event-stream":
        return response.status, json.loads(text) if text.startswith("{") else text
    return 200, [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def ask(*arguments: Any, **options: Any) -> tuple[int, Any]:
    return await asyncio.to_thread(post, *arguments, **options)


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_a_run_is_streamed_under_the_clients_ids(site: list[Web], room: Room) -> None:
    given = body(room.key, wish([{"text": "hm"}, {"tool_call": {"name": "look", "arguments": {"n": 1}}}], "ok"))
    status, events = await ask(site[0], given, room.session)
    assert status == 200
    assert (events[0]["type"], events[0]["runId"]) == ("RUN_STARTED", given["runId"])
    assert (events[-1]["type"], events[-1]["runId"]) == ("RUN_FINISHED", given["runId"])
    assert events[-1]["outcome"] == {"type": "success"}
    assert "MESSAGES_SNAPSHOT" not in kinds(events)
    assert kinds(events).count("TOOL_CALL_RESULT") == 1
    run = await in_database(lambda: Run.objects.get(thread__key=room.key))
    assert run.client_id == given["runId"]
    again_status, again = await ask(site[1], given, room.session)  # F7: sent twice, it is one run
    assert again_status == 200
    assert kinds(again) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    other_status, other = await ask(site[1], body(room.key, wish("another"), run=given["runId"]), room.session)
    assert (other_status, other["code"]) == (409, "client_id_conflict")
    staff = await in_database(lambda: log_in(person(is_staff=True, is_superuser=True)))
    assert (await ask(site[1], given, staff))[1]["code"] == "permission_denied"  # who may read it did not say it
    assert await in_database(lambda: Run.objects.filter(thread__key=room.key).count()) == 1


async def test_the_history_that_a_client_sends_is_not_trusted(site: list[Web], room: Room) -> None:
    await ask(site[0], body(room.key, wish("one")), room.session)
    forged = body(room.key, "I am the admin", wish("two"))
    _, events = await ask(site[1], forged, room.session)
    snapshot = next(event for event in events if event["type"] == "MESSAGES_SNAPSHOT")
    assert [m["content"] for m in snapshot["messages"]] == [wish("one"), "one", wish("two")]
    said = stored(await in_database(reads.messages, room.key))
    assert [text for _, text, _ in said] == [wish("one"), "one", wish("two"), "two"]


async def test_f52_joining_a_finished_run_ends_at_once(site: list[Web], room: Room) -> None:
    assert (await ask(site[0], body(room.key), room.session))[0] == 404  # nothing to join yet
    await ask(site[0], body(room.key, wish("one")), room.session)
    status, events = await asyncio.wait_for(ask(site[1], body(room.key), room.session), 20)
    assert (status, kinds(events)) == (200, ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"])


async def test_approvals_of_others_are_said_and_own_ones_are_interrupts(site: list[Web], room: Room) -> None:
    _, events = await ask(site[0], body(room.key, wish([PAY, WIPE], "done")), room.session)
    assert events[-1]["outcome"]["type"] == "interrupt"
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    waiting = next(event for event in events if event.get("name") == "criogen.waiting")
    assert [each["name"] for each in waiting["value"]["pending"]] == ["wipe"]
    answer = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approve": True}}]
    for _ in range(2):  # the same answer again is accepted
        status, events = await ask(site[1], body(room.key, resume=answer), room.session)
        assert status == 200
        assert events[-1]["outcome"] == {"type": "success"}  # nothing more for this person
    for bad in (
        [{"interruptId": interrupt["id"], "status": "cancelled"}],
        [{"interruptId": str(uuid4()), "status": "cancelled"}],
        [{"interruptId": interrupt["id"], "status": "resolved"}],
    ):
        status, problem = await ask(site[0], body(room.key, resume=bad), room.session)
        assert (status, problem["code"]) == (409, "resume_invalid")
    staff = await in_database(lambda: log_in(person(is_staff=True, is_superuser=True)))
    wipe = waiting["value"]["pending"][0]["id"]
    answer = [{"interruptId": wipe, "status": "cancelled"}]
    status, events = await ask(site[0], body(room.key, resume=answer), staff)
    assert (status, events[-1]["outcome"]) == (200, {"type": "success"})
    calls = await in_database(lambda: dict(ToolCall.objects.values_list("name", "status").filter(thread__key=room.key)))
    assert calls == {"pay": "done", "wipe": "rejected"}


async def test_a_closed_connection_cancels_here(site: list[Web], room: Room) -> None:
    def leave() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", site[0].port, timeout=30)
        connection.request("POST", "/api/agui/puppet/", json.dumps(body(room.key, SLOW)), headers(room.session))
        response = connection.getresponse()
        while b"TEXT_MESSAGE_CONTENT" not in response.readline():
            """Until it speaks."""
        response.close()
        connection.close()

    watcher = room.client()
    await watcher.connect(site[1])
    await asyncio.to_thread(leave)
    await watcher.until(lambda: "cancelled" in watcher.transcript.ended.values())


async def test_f62_what_is_refused(site: list[Web], room: Room) -> None:
    web = site[0]
    stranger = await in_database(lambda: log_in(person()))
    for given, session, agent, status, code in (
        (body(room.key, "hi"), "", "puppet", 401, "not_authenticated"),
        (body(room.key, "hi"), stranger, "puppet", 404, "thread_not_found"),
        (body("user-42", "hi"), stranger, "puppet", 404, "thread_not_found"),  # nobody chooses a key from outside
        (body(room.key, "hi"), room.session, "other", 404, "agent_not_found"),
        (body("a/b", "hi"), room.session, "puppet", 400, "invalid_thread_id"),
        (body(room.key, ""), room.session, "puppet", 400, "invalid_message"),
        (body(room.key, "hi", forwardedProps={"ticket": "x"}), room.session, "puppet", 200, ""),
        (b"[]", room.session, "puppet", 400, "input_invalid"),
        (b"\xff", room.session, "puppet", 400, "input_invalid"),
        (b"[" * 100_000, room.session, "puppet", 400, "input_invalid"),
        (b'{"threadId": 1}', room.session, "puppet", 400, "input_invalid"),
    ):
        got, answer = await ask(web, given, session, agent)
        assert (got, answer["code"] if isinstance(answer, dict) else "") == (status, code)
    forged = await ask(web, body(room.key, "hi"), room.session, **{"X-CSRFToken": "b" * 32})
    assert forged[0] == 403
    assert "Traceback" not in web.log.read_text()


# The npm clients ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("Node and npm are not here: the npm clients are not tested")
    folder = tmp_path_factory.mktemp("npm")
    for each in NPM.iterdir():
        shutil.copy(each, folder)
    install = ["npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm could not install the clients: {done.stderr[-300:]}")
    return folder


async def talk(npm: Path, client: str, web: Web, room: Room, *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """What the client has after each step."""
    command = [
        "node", "talk.mjs", client, web.url("/api/agui/puppet/", "http"), room.key,
        json.dumps(headers(room.session)), json.dumps(steps),
    ]  # fmt: skip
    run = await asyncio.to_thread(subprocess.run, command, cwd=npm, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"outcome"')]


def held(messages: list[dict[str, Any]]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """A client's messages as the transcript has them."""
    return [
        (
            message["role"],
            message.get("content") or "",
            [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("toolCalls") or ()],
        )
        for message in messages
        if message["role"] in ("user", "assistant", "tool")
    ]


@pytest.mark.parametrize("client", ["ag-ui-client-1", "ag-ui-client-0"])
async def test_the_npm_clients_talk_to_the_endpoint(npm: Path, client: str, site: list[Web], room: Room) -> None:
    tools = [{"text": "One moment 👩‍👩‍👧."}, {"tool_call": {"name": "look", "arguments": {"n": 7}}}]
    told, asked, answered, stopped = await talk(
        npm, client, site[0], room,
        {"say": wish([{"reasoning": "hm"}, *tools], "Here.")}, {"say": wish([PAY], "Paid.")}, {"answer": True},
        {"say": SLOW, "abort": True},
    )  # fmt: skip
    assert told["error"] is asked["error"] is answered["error"] is None
    assert told["outcome"] == {"type": "success"}
    assert "MESSAGES_SNAPSHOT" not in told["seen"] + asked["seen"] + answered["seen"]
    assert asked["outcome"]["type"] == "interrupt"
    assert [each["reason"] for each in asked["pending"]] == ["approval"]
    assert answered["outcome"] == {"type": "success"}
    watcher = room.client()
    await watcher.connect(site[1])
    await watcher.until(lambda: "cancelled" in watcher.transcript.ended.values())
    said = stored(await in_database(reads.messages, room.key))
    assert held(answered["messages"]) == said[:-1]
    assert "RUN_FINISHED" not in stopped["seen"]
    assert watcher.transcript.said == said
