"""Retry, rewind, and going back with a message, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import tool
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine import background
from criogen_threads.engine.dispatch.executing import execute_retry
from criogen_threads.engine.journal import reopening
from criogen_threads.models import Checkpoint, Event, Run, Thread
from tests.api.support import Api, a_user, at_once, code_of
from tests.support import an_agent, call, refused

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


class Flaky:
    """A model that fails until it is mended."""

    def __init__(self) -> None:
        self.mended = False
        self.requests = 0

    def respond(self, messages: Any, tools: Any) -> str:
        self.requests += 1
        if not self.mended:
            raise ModelError("down", passing=False)
        return "ok"


@pytest.fixture
def flaky(api: Api, owner: User) -> Flaky:
    model = Flaky()
    agent = an_agent(model=ScriptedModel(model.respond))
    with refused("model_failed"):
        agent.thread("one", actor=owner).send_sync("hi")
    return model


def test_f32_retry_is_accepted_at_once_and_runs_on(api: Api, flaky: Flaky) -> None:
    flaky.mended = True
    response = api.post("threads/one/retry/?wait=10")
    assert response.status_code == 200
    run = response.json()
    assert (run["status"], run["attempt"], run["number"]) == ("completed", 2, 1)
    starts = Event.objects.filter(type="run_start").order_by("seq").values_list("details", flat=True)
    assert list(starts) == [None, {"attempt": 2}]
    assert code_of(api.post("threads/one/retry/"), 409) == "resume_invalid"


def test_f32_retry_without_wait_is_a_202_with_the_run(api: Api, flaky: Flaky) -> None:
    flaky.mended = True
    response = api.post("threads/one/retry/")
    assert (response.status_code, response.json()["attempt"]) == (202, 2)
    assert response.json()["status"] in ("in_progress", "completed")


def test_f01_of_retries_at_once_one_wins_and_the_others_are_told_so(
    owner: User, flaky: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("criogen_threads.engine.dispatch.retry", lambda run_id: None)  # none is taken up meanwhile
    clients = [Api(owner) for _ in range(4)]
    codes = at_once([lambda client=client: client.post("threads/one/retry/").status_code for client in clients])
    assert sorted(codes) == [202, 409, 409, 409]
    assert Run.objects.get().attempt == 2


def test_an_accepted_retry_that_nobody_took_up_is_an_interrupted_run(
    api: Api, flaky: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("criogen_threads.engine.dispatch.retry", lambda run_id: None)
    run_id = api.post("threads/one/retry/").json()["id"]
    monkeypatch.undo()
    assert api.get("threads/one/").json()["status"] == "interrupted"
    flaky.mended = True
    assert code_of(api.post("threads/one/retry/"), 409) == "thread_busy"
    monkeypatch.setattr(reopening, "ACCEPTED_SECONDS", 0)
    Run.objects.update(wait_until=Run.objects.get().created_at)
    assert api.post("threads/one/retry/?wait=10").json()["id"] == run_id
    run = Run.objects.get()
    assert (run.status, run.attempt) == ("completed", 2)


def test_a_cancelled_accepted_retry_is_not_run(api: Api, flaky: Flaky, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("criogen_threads.engine.dispatch.retry", lambda run_id: None)
    run_id = api.post("threads/one/retry/").json()["id"]
    monkeypatch.undo()
    asked = flaky.requests
    assert api.post(f"runs/{run_id}/cancel/?wait=5").json()["error_code"] == "cancelled"
    background.run(execute_retry, Run.objects.get().pk)
    assert flaky.requests == asked
    assert Run.objects.get().status == "failed"
    flaky.mended = True
    again = api.post("threads/one/retry/?wait=10").json()
    assert (again["status"], again["attempt"]) == ("completed", 3)


def test_retry_at_a_fork_is_a_new_run(api: Api, owner: User) -> None:
    an_agent([call("look")], "ok", "ok again", tools=[look]).thread("one", actor=owner).send_sync("hi")
    middle = Checkpoint.objects.filter(source="step").order_by("version").first()
    assert api.post("threads/one/rewind/", checkpoint=str(middle.pk)).status_code == 200  # type: ignore[union-attr]
    response = api.post("threads/one/retry/?wait=10")
    assert response.status_code == 200
    run = response.json()
    assert (run["number"], run["status"], run["attempt"]) == (2, "completed", 1)
    assert run["forked_from"] == str(Run.objects.get(number=1).pk)
    assert Event.objects.filter(type="run_start", run=run["id"]).count() == 1


@tool(read_only=True)
def look() -> str:
    """Look something up."""
    return "seen"


@tool
def pay() -> str:
    """Change something."""
    return "paid"


def first_input(api: Api) -> str:
    return str(Checkpoint.objects.order_by("version").first().pk)  # type: ignore[union-attr]


def test_rewind_gives_the_new_head(api: Api, owner: User) -> None:
    handle = an_agent("a", "b", "c").thread("one", actor=owner)
    handle.send_sync("first")
    target = handle.history_sync(1)[0]["id"]
    handle.send_sync("second")
    head = api.post("threads/one/rewind/", checkpoint=target).json()
    assert (head["source"], head["parent_id"]) == ("fork", target)
    assert len(api.get("threads/one/messages/").json()["results"]) == 2
    unknown = api.post("threads/one/rewind/", checkpoint="0198c5a0-0000-7000-8000-000000000000")
    assert code_of(unknown, 404) == "checkpoint_not_found"


def test_rewind_and_send_in_one_save(api: Api, owner: User) -> None:
    handle = an_agent("a", "b", "c").thread("one", actor=owner)
    handle.send_sync("first")
    target = handle.history_sync(1)[0]["id"]
    handle.send_sync("second")
    version = Thread.objects.get().version
    run = api.send("one", "edited", checkpoint=target, client_id="e1")
    assert run["status"] == "completed"
    said = [message["content"][0]["text"] for message in api.get("threads/one/messages/").json()["results"]]
    assert said == ["first", "a", "edited", "b"]
    fork = Checkpoint.objects.get(version=version + 1)
    assert (fork.source, fork.parent_id) == ("fork", Checkpoint.objects.get(pk=target).pk)
    assert api.send("one", "edited", checkpoint=target, client_id="e1")["id"] == run["id"]
    assert Checkpoint.objects.filter(source="fork").count() == 1  # sent twice, gone back once


def test_rewind_and_send_is_both_or_nothing(api: Api, owner: User) -> None:
    handle = an_agent([call("ask")], "a", tools=[ask]).thread("one", actor=owner)
    handle.send_sync("first")
    suspended = handle.history_sync(1)[0]["id"]
    before = Thread.objects.get()
    waits = api.post("threads/one/runs/", text="x", checkpoint=suspended)
    assert code_of(waits, 409) == "thread_suspended"
    unknown = api.post("threads/one/runs/", text="x", checkpoint="0198c5a0-0000-7000-8000-000000000000")
    assert code_of(unknown, 404) == "checkpoint_not_found"
    after = Thread.objects.get()
    assert (after.version, after.head_id, after.pending) == (before.version, before.head_id, 1)
    assert Run.objects.count() == 1


@tool(approval="owner")
def ask() -> str:
    """Ask first."""
    return "done"


def test_editing_past_a_call_that_changed_something_is_refused_to_the_owner(api: Api, owner: User) -> None:
    an_agent([call("look")], [call("pay")], "ok", "again", tools=[look, pay]).thread("one", actor=owner).send_sync("x")
    steps = list(Checkpoint.objects.order_by("version"))
    looked, paid = steps[2], steps[4]
    for going_back in (
        api.post("threads/one/rewind/", checkpoint=str(looked.pk)),
        api.post("threads/one/runs/", text="edited", checkpoint=first_input(api)),
    ):
        assert code_of(going_back, 403) == "permission_denied"
        assert going_back.json()["details"]["tools"] == ["pay"]
    assert Thread.objects.get().version == steps[-1].version
    assert api.post("threads/one/rewind/", checkpoint=str(paid.pk)).status_code == 200
    staff = Api(a_user("staff", "rewind_thread", "view_transcript", staff=True))
    assert staff.post("threads/one/rewind/", checkpoint=str(looked.pk)).status_code == 200


def test_editing_past_calls_that_only_read_is_the_owners_to_do(api: Api, owner: User) -> None:
    an_agent([call("look")], "ok", "again", "more", tools=[look]).thread("one", actor=owner).send_sync("x")
    assert api.post("threads/one/rewind/", checkpoint=first_input(api)).status_code == 200
