"""Streams that are left, lose their permission, or break: what they watched is let go of, and what they began ends."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.test import AsyncRequestFactory

from criogen_threads.agents import get_agent
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import telling
from criogen_threads.engine.journal import posts
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Run, Thread
from criogen_threads.streaming import agui_run, endpoint, sse
from criogen_threads.streaming.feed import Feed
from criogen_threads.streaming.relay import _relays, get_relay
from tests.api.support import a_user
from tests.api.test_runs import Held
from tests.streaming.servers import log_in
from tests.support import an_agent, forget_agents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 20


@pytest.fixture
def held() -> Iterator[Held]:
    gate = Held()
    yield gate
    gate.go.set()


@pytest.fixture
def ann(transactional_db: None, held: Held) -> Iterator[User]:
    """Somebody with a conversation, in which the model answers when the test says so."""
    user = a_user("ann")
    an_agent(model=ScriptedModel(held.respond))
    posts.create("one", "helper", Asker.of(user), {})
    yield user
    forget_agents()


async def request_of(user: User, method: str = "get", **body: Any) -> Any:
    """A request with a session of this user."""

    async def auser() -> User:
        return user

    factory = AsyncRequestFactory()
    request = factory.get("/") if method == "get" else factory.post("/", json.dumps(body), "application/json")
    request.auser, request._dont_enforce_csrf_checks = auser, True
    request.session = SessionStore(await in_database(log_in, user))
    await in_database(request.session.items)  # as the look for the user has read it
    return request


async def ask(user: User, **given: Any) -> Any:
    said = [{"id": "1", "role": "user", "content": "Hello"}]
    body = {"threadId": "one", "runId": "r", "messages": said, **given}
    return await endpoint.agui(await request_of(user, "post", **body), "helper")


async def events_of(response: Any) -> list[dict[str, Any]]:
    pieces = [piece.decode() async for piece in response.streaming_content]
    return [json.loads(line[6:]) for piece in pieces for line in piece.splitlines() if line.startswith("data: ")]


async def until(done: Callable[[], bool]) -> None:
    """Wait until something in the database, or in this process, is so."""
    async with asyncio.timeout(PATIENCE):
        while not await in_database(done):
            await asyncio.sleep(0.01)


def is_cancelled() -> bool:
    return Run.objects.filter(error_code="cancelled").exists()


async def test_a_stream_whose_response_is_dropped_unread_watches_no_more(ann: User, held: Held) -> None:
    turn = asyncio.create_task(get_agent("helper").thread("one", actor=ann).send("Hello"))
    assert await asyncio.to_thread(held.asked.wait, PATIENCE)
    response = await sse.events(await request_of(ann), "one")
    assert response.status_code == 200
    assert "one" in get_relay().watched
    del response
    gc.collect()
    await until(lambda: "one" not in watched())
    held.go.set()
    await turn


def watched() -> set[str]:
    """The keys that this process watches, asked from another thread than the loop's."""
    return {key for relay in list(_relays.values()) for key in relay.watched}


async def test_an_ag_ui_client_that_leaves_before_it_was_answered_cancels_its_run(
    ann: User, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = await ask(ann)
    assert await asyncio.to_thread(held.asked.wait, PATIENCE)
    del response  # the server has dropped it: nobody is there to send it to
    gc.collect()
    await until(is_cancelled)
    await until(lambda: "one" not in watched())


async def test_an_ag_ui_client_that_leaves_while_its_run_is_saved_cancels_it(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = endpoint._begin, asyncio.Event()

    async def slowly(attached: Any) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        await begin(attached)

    monkeypatch.setattr(endpoint, "_begin", slowly)
    asking = asyncio.create_task(ask(ann))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(is_cancelled)
    assert "one" not in get_relay().watched


async def test_a_refused_ag_ui_request_watches_no_more(ann: User) -> None:
    for given in ({"messages": []}, {"messages": [{"id": "1", "role": "user", "content": " "}]}):
        assert (await ask(ann, **given)).status_code in (400, 404)
        assert "one" not in get_relay().watched


async def test_a_feed_that_could_not_be_started_watches_no_more(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(keys: Any) -> Any:
        raise LookupError("the database is away")

    monkeypatch.setattr(telling, "standings", away)
    with pytest.raises(LookupError):
        await sse.events(await request_of(ann), "one")
    assert "one" not in get_relay().watched


async def log_out(user: User, request: Any) -> None:
    await in_database(SessionStore(request.session.session_key).delete)


async def deactivate(user: User, request: Any) -> None:
    user.is_active = False
    await in_database(user.save)


async def give_away(user: User, request: Any) -> None:
    bob = await in_database(a_user, "bob")
    await in_database(lambda: Thread.objects.update(owner=bob))


LOST = {log_out: "not_authenticated", deactivate: "not_authenticated", give_away: "thread_not_found"}


@pytest.mark.parametrize("lose", LOST)
async def test_f50_an_ag_ui_stream_ends_soon_after_its_permission(
    ann: User, held: Held, lose: Callable[[User, Any], Any], settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"RECHECK_SECONDS": 0.2}
    said = [{"id": "1", "role": "user", "content": "Hello"}]
    request = await request_of(ann, "post", threadId="one", runId="r", messages=said)
    reading = asyncio.create_task(events_of(await endpoint.agui(request, "helper")))
    assert await asyncio.to_thread(held.asked.wait, PATIENCE)
    await lose(ann, request)
    events = await asyncio.wait_for(reading, PATIENCE)
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", LOST[lose])
    assert "one" not in get_relay().watched
    held.go.set()
    await until(lambda: Run.objects.filter(status="completed").exists())  # the run is the server's, and goes on


@pytest.mark.parametrize("lose", LOST)
async def test_f50_an_event_stream_ends_soon_after_its_permission(
    ann: User, held: Held, lose: Callable[[User, Any], Any], settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS = {"RECHECK_SECONDS": 0.2}
    turn = asyncio.create_task(get_agent("helper").thread("one", actor=ann).send("Hello"))
    assert await asyncio.to_thread(held.asked.wait, PATIENCE)
    request = await request_of(ann)
    reading = asyncio.create_task(events_of(await sse.events(request, "one")))
    await lose(ann, request)
    events = await asyncio.wait_for(reading, PATIENCE)
    assert "RUN_FINISHED" not in {event["type"] for event in events}
    assert "one" not in get_relay().watched
    held.go.set()
    await turn


async def test_what_breaks_an_ag_ui_stream_has_a_code_and_does_not_cancel_the_run(
    ann: User, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Feed):
        async def read(self) -> Any:
            raise LookupError("a defect")

    monkeypatch.setattr(agui_run, "Feed", Broken)
    events = await events_of(await ask(ann))
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "internal_error")
    held.go.set()
    await until(lambda: Run.objects.filter(status="completed").exists())
