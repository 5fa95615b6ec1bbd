"""A thread is deleted behind the policy's back, and somebody else begins its key, before the feed starts."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from channels.testing import WebsocketCommunicator
from django.test import AsyncRequestFactory

from criogen_threads.agents import get_agent
from criogen_threads.engine.journal import posts
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Thread
from criogen_threads.policy import Policy
from criogen_threads.streaming import agui_run, consumers, endpoint, polling, sse
from criogen_threads.streaming.feed import Feed
from criogen_threads.streaming.relay import get_relay
from tests.api.support import Api, a_user, code_of
from tests.streaming.servers import cookie, log_in
from tests.streaming.site import application
from tests.support import an_agent, forget_agents, unfinished_runs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ann(transactional_db: None) -> Iterator[User]:
    """Somebody with a conversation."""
    user = a_user("ann")
    an_agent("Hello!", "Hello!")
    posts.create("one", "helper", Asker.of(user), {})
    yield user
    forget_agents()


def somebody_else_begins_it(*, begins: bool) -> None:
    Thread.objects.get(key="one").delete()
    if begins:
        posts.create("one", "helper", Asker.of(a_user("bob")), {})


@pytest.mark.parametrize("begins", [True, False])
def test_f62_a_poll_shows_the_thread_that_was_judged(ann: User, begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(polling.Feed):
        async def start(self, *args: Any, **kwargs: Any) -> None:
            await in_database(lambda: somebody_else_begins_it(begins=begins))
            await super().start(*args, **kwargs)

    api = Api(ann)
    assert api.get("threads/one/feed/").json()["state"] == "idle"
    monkeypatch.setattr(polling, "Feed", Late)
    assert code_of(api.get("threads/one/feed/"), 404) == "thread_not_found"


@pytest.mark.parametrize("begins", [True, False])
async def test_f62_an_event_stream_shows_the_thread_that_was_judged(
    ann: User, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def user() -> User:
        return ann

    request = AsyncRequestFactory().get("/")
    request.auser = user
    assert (await sse.events(request, "one")).status_code == 204
    look = sse.look

    async def late(*args: Any) -> Any:
        seen = await look(*args)
        await in_database(lambda: somebody_else_begins_it(begins=begins))
        return seen

    monkeypatch.setattr(sse, "look", late)
    assert code_of(_read(await sse.events(request, "one")), 404) == "thread_not_found"


class Once:
    """Has something happen before the first feed starts, and never again."""

    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        once, works = self, [work]
        self.started = 0

        class Late(Feed):
            async def start(self, *args: Any, **kwargs: Any) -> None:
                once.started += 1
                while works:
                    await works.pop()()
                await super().start(*args, **kwargs)

        self.feed = Late


async def bob_begins_it(*, begins: bool) -> None:
    """The thread goes, and a conversation of another user takes its place."""
    await in_database(lambda: somebody_else_begins_it(begins=False))
    if begins:
        bob = await in_database(a_user, "bob")
        await get_agent("helper").thread("one", actor=bob).send("bob's secret")


def socket_of(user: User) -> WebsocketCommunicator:
    headers = [(b"cookie", cookie(log_in(user))["Cookie"].encode())]
    return WebsocketCommunicator(application, "/ws/threads/one/", headers=headers)


async def frames_of(socket: WebsocketCommunicator) -> list[dict[str, Any]]:
    """What a socket says until it is closed; the last one is the code of that."""
    found = []
    while (output := await socket.receive_output(10))["type"] == "websocket.send":
        found.append(json.loads(output["text"]))
    return [*found, {"closed": output["code"]}]


async def test_f62_a_websocket_shows_the_thread_that_was_judged(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "Feed", Once(lambda: bob_begins_it(begins=True)).feed)
    socket = await in_database(socket_of, ann)
    await socket.connect()
    await socket.send_json_to({"type": "subscribe", "id": 1, "after": 0})
    said, closed = await frames_of(socket)
    assert (said["code"], closed) == ("thread_not_found", {"closed": 4404})
    await socket.wait()


async def test_f62_a_websocket_that_waits_for_a_thread_is_not_shown_that_of_another(ann: User) -> None:
    await in_database(lambda: somebody_else_begins_it(begins=False))
    socket = await in_database(socket_of, ann)
    await socket.connect()
    await socket.send_json_to({"type": "subscribe", "id": 1, "after": 0})
    assert (await socket.receive_json_from(10))["state"] == "absent"
    bob = await in_database(a_user, "bob")
    await get_agent("helper").thread("one", actor=bob).send("bob's secret")
    said, closed = await frames_of(socket)
    assert (said["code"], closed) == ("thread_not_found", {"closed": 4404})
    await socket.wait()


ASKED: dict[str, dict[str, Any]] = {
    "say": {"messages": [{"id": "1", "role": "user", "content": "Hello"}]},
    "join": {"messages": []},
    "resume": {"messages": [], "resume": [{"interruptId": str(uuid4()), "status": "cancelled"}]},
}


async def post(user: User, **asked: Any) -> Any:
    """The answer of the AG-UI endpoint."""

    async def auser() -> User:
        return user

    body = json.dumps({"threadId": "one", "runId": "r", **asked})
    request = AsyncRequestFactory().post("/", body, content_type="application/json")
    request.auser, request.session = auser, {}
    request._dont_enforce_csrf_checks = True
    return await endpoint.agui(request, "helper")


async def events_of(response: Any) -> list[dict[str, Any]]:
    pieces = [piece.decode() async for piece in response.streaming_content]
    return [json.loads(piece[6:]) for piece in pieces if piece.startswith("data: ")]


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("what", ASKED)
async def test_f62_ag_ui_shows_the_thread_that_was_judged(
    ann: User, what: str, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Once(lambda: bob_begins_it(begins=begins))
    monkeypatch.setattr(agui_run, "Feed", once.feed)
    assert code_of(_read(await post(ann, **ASKED[what])), 404) == "thread_not_found"
    assert once.started == 1
    assert "one" not in get_relay().watched, "a refused request watches no more"


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("what", ["say", "say again", "join"])
async def test_f62_ag_ui_shows_nothing_of_a_thread_that_comes_in_the_place_of_the_one_that_was_joined(
    ann: User, what: str, begins: bool
) -> None:
    if what != "say":
        await get_agent("helper").thread("one", actor=ann).send("Hello", client_id="r")
    response = await post(ann, **ASKED[what.split()[0]])
    while what == "say" and await in_database(lambda: unfinished_runs().exists()):
        await asyncio.sleep(0.01)
    await bob_begins_it(begins=begins)
    events = await asyncio.wait_for(events_of(response), 20)
    ends = {"RUN_FINISHED": "", "RUN_ERROR": "thread_not_found"}  # the own run may have been told to its end
    assert ends[events[-1]["type"]] == events[-1].get("code", "")
    assert what == "say" or events[-1]["type"] == "RUN_ERROR"
    assert "secret" not in json.dumps(events)
    assert "one" not in get_relay().watched


@pytest.mark.parametrize("begins", [True, False])
async def test_f62_ag_ui_does_not_go_on_in_another_thread_than_the_one_that_its_run_began(
    ann: User, begins: bool, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"POLICY": f"{__name__}.Open", "RECHECK_SECONDS": 0.5}
    await in_database(lambda: somebody_else_begins_it(begins=False))
    response = await post(ann, **ASKED["say"])
    while await in_database(lambda: unfinished_runs().exists()):
        await asyncio.sleep(0.01)
    await bob_begins_it(begins=begins)
    events = await asyncio.wait_for(events_of(response), 20)
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "thread_not_found")
    assert "secret" not in json.dumps(events)


class Open(Policy):
    """Users choose keys, and see everything: what is not told is not of the run."""

    def choose_key(self, user: Any, key: str) -> bool:
        return True

    def see(self, user: Any, thread: Thread) -> bool:
        return True


def _read(response: Any) -> Any:
    """As a test client gives it."""
    response.json = lambda: json.loads(response.content)
    return response
