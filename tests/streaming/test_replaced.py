"""A thread is deleted behind the policy's back, and somebody else begins its key, before the feed starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.test import AsyncRequestFactory

from criogen_threads.engine.journal import posts
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.pools import in_database
from criogen_threads.models import Thread
from criogen_threads.streaming import polling, sse
from tests.api.support import Api, a_user, code_of
from tests.support import an_agent, forget_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ann(transactional_db: None) -> Iterator[User]:
    """Somebody with a conversation."""
    user = a_user("ann")
    an_agent("Hello!")
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


def _read(response: Any) -> Any:
    """As a test client gives it."""
    response.json = lambda: json.loads(response.content)
    return response
