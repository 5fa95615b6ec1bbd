"""How many runs a user may have, and how many requests may wait."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings as django_settings
from django.core.asgi import get_asgi_application
from django.db import connection

from criogen_threads.agents import get_agent
from criogen_threads.api import waiting
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine.pools import in_database
from criogen_threads.ids import new_id
from criogen_threads.models import Run, Thread
from tests.api.support import Api, at_once, code_of
from tests.support import an_agent, refused, unfinished_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """An agent that answers when the event is set."""
    go = threading.Event()

    async def respond(messages: Any, tools: Any) -> str:
        while not go.is_set():
            await asyncio.sleep(0.01)
        return "done"

    an_agent(model=ScriptedModel(respond))
    yield go
    go.set()


def threads_of(api: Api, count: int) -> list[str]:
    return [api.post("threads/", agent="helper").json()["key"] for _ in range(count)]


def test_the_limit_of_runs_is_exact_under_concurrency(
    owner: User, stranger: User, settings: SettingsWrapper, stuck: threading.Event
) -> None:
    settings.CRIOGEN_THREADS |= {"MAX_RUNS_PER_USER": 3}
    keys = threads_of(Api(owner), 8)
    clients = [Api(owner) for _ in keys]
    answers = at_once(
        [
            lambda api=api, key=key: api.post(f"threads/{key}/runs/", text="x")
            for api, key in zip(clients, keys, strict=True)
        ]
    )
    assert sorted(answer.status_code for answer in answers) == [202] * 3 + [429] * 5
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert code_of(refused, 429) == "too_many_runs"
    assert refused.json()["details"] == {"limit": 3}
    assert int(refused["Retry-After"]) > 0
    assert Run.objects.count() == 3
    assert Api(stranger).post(f"threads/{threads_of(Api(stranger), 1)[0]}/runs/", text="x").status_code == 202
    stuck.set()
    _until(lambda: not unfinished_runs().exists())
    assert Api(owner).send(keys[0], "x")["status"] == "completed"


def test_queued_runs_count_and_the_same_client_id_does_not(
    owner: User, settings: SettingsWrapper, stuck: threading.Event
) -> None:
    settings.CRIOGEN_THREADS |= {"MAX_RUNS_PER_USER": 2}
    api = Api(owner)
    key, other = threads_of(api, 2)
    first = api.post(f"threads/{key}/runs/", text="1", client_id="c")
    assert api.post(f"threads/{key}/runs/", text="2").status_code == 202
    assert api.post(f"threads/{other}/runs/", text="3").status_code == 429
    again = api.post(f"threads/{key}/runs/", text="1", client_id="c")
    assert again.json()["id"] == first.json()["id"]


def test_the_limit_holds_for_python_calls_with_an_actor_and_not_for_the_sites_own(
    owner: User, settings: SettingsWrapper, stuck: threading.Event
) -> None:
    settings.CRIOGEN_THREADS |= {"MAX_RUNS_PER_USER": 1}
    agent = get_agent("helper")
    agent.thread("a", actor=owner).submit_sync("x")
    with refused("too_many_runs"):
        agent.thread("b", actor=owner).send_sync("x")
    assert not Thread.objects.filter(key="b").exists()
    agent.thread("c").submit_sync("x")


def test_a_run_whose_process_died_does_not_count(
    owner: User, settings: SettingsWrapper, stuck: threading.Event
) -> None:
    settings.CRIOGEN_THREADS |= {"MAX_RUNS_PER_USER": 1}
    stuck.set()
    api = Api(owner)
    key, other = threads_of(api, 2)
    api.send(key, "x")
    Run.objects.update(status="in_progress")
    Thread.objects.filter(key=key).update(status="running", holder=new_id())  # of no process that lives
    assert api.send(other, "x")["status"] == "completed"


def test_f43_at_most_so_many_requests_wait_and_the_others_are_answered(
    owner: User, settings: SettingsWrapper, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CRIOGEN_THREADS |= {"WAITING_REQUESTS": 2}
    api = Api(owner)
    [key] = threads_of(api, 1)
    run_id = api.post(f"threads/{key}/runs/", text="x", client_id="c").json()["id"]
    clients = [Api(owner) for _ in range(5)]
    waiters: set[int] = set()
    answered: list[int] = []
    three_are_answered = threading.Event()

    def sleep(seconds: float) -> None:
        waiters.add(threading.get_ident())
        assert three_are_answered.wait(30)

    def wait(client: Api) -> int:
        status = client.post(f"threads/{key}/runs/?wait=1", text="x", client_id="c").status_code
        answered.append(threading.get_ident())
        if len(answered) == 3:
            three_are_answered.set()
        return int(status)

    monkeypatch.setattr(waiting, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    assert at_once([lambda client=client: wait(client) for client in clients]) == [202] * 5
    assert len(waiters) == 2
    assert not waiters & set(answered[:3])
    assert waiting._waiting == 0
    monkeypatch.undo()
    assert api.post(f"runs/{run_id}/cancel/?wait=5").status_code == 200


def test_f43_a_request_that_waits_holds_no_connection(
    owner: User, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []

    def sleep(seconds: float) -> None:
        held.append(connection.connection is not None)
        time.sleep(seconds)

    api = Api(owner)
    [key] = threads_of(api, 1)
    monkeypatch.setattr(waiting, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    assert api.post(f"threads/{key}/runs/?wait=1", text="x").status_code == 202
    assert len(held) >= 2
    assert not any(held)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no connections to count")
async def test_f43_connections_are_bounded_under_100_requests_and_50_waiters(
    owner: User, settings: SettingsWrapper, stuck: threading.Event
) -> None:
    cookie, keys = await in_database(_prepared, owner)
    most: list[int] = []
    done = asyncio.Event()
    counting = asyncio.create_task(_count_connections(most, done))
    asks = [_request("POST", f"/api/threads/{key}/runs/?wait=2", cookie, b'{"text": "x"}') for key in keys] + [
        _request("GET", path, cookie) for path in ("/api/threads/", f"/api/threads/{keys[0]}/events/") * 25
    ]
    statuses = await asyncio.gather(*asks)
    done.set()
    await counting
    assert sorted(set(statuses)) == [200, 202]
    assert len(statuses) == 100
    assert max(most) <= int(django_settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]) + 3


def _prepared(owner: User) -> tuple[str, list[str]]:
    api = Api(owner)
    return api.client.cookies["sessionid"].value, threads_of(api, 50)


async def _request(method: str, path: str, cookie: str, body: bytes = b"") -> int:
    """One request through the real ASGI handler, each with a thread of its own as under a server."""
    path, _, query = path.partition("?")
    token = "a" * 32
    headers = {
        "host": "testserver", "cookie": f"sessionid={cookie}; csrftoken={token}", "x-csrftoken": token,
        "content-type": "application/json", "content-length": str(len(body)),
    }  # fmt: skip
    scope = {
        "type": "http", "method": method, "path": path, "query_string": query.encode(), "http_version": "1.1",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    communicator = ApplicationCommunicator(get_asgi_application(), scope)
    await communicator.send_input({"type": "http.request", "body": body})
    status = int((await communicator.receive_output(60))["status"])
    while (await communicator.receive_output(60)).get("more_body"):
        pass
    await communicator.wait(60)
    return status


async def _count_connections(most: list[int], done: asyncio.Event) -> None:
    while not done.is_set():
        most.append(await in_database(_connections))
        await asyncio.sleep(0.05)


def _connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)
