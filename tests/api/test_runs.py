"""Runs over HTTP: sent, sent again, looked at, waited for, refused."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from criogen_threads.backends.base import ModelError
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Message, Run, Thread
from tests.api.support import Api, code_of
from tests.support import an_agent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


class Held:
    """A model that answers when the test says so; asked from whatever loop."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()

    async def respond(self, messages: Any, tools: Any) -> str:
        self.asked.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        return "done"


@pytest.fixture
def held() -> Iterator[Held]:
    gate = Held()
    yield gate
    gate.go.set()


@pytest.fixture
def chat(owner: User) -> None:
    an_agent("hello", "again", "and again").thread("one", actor=owner).send_sync("hi")


@pytest.mark.usefixtures("chat")
def test_f10_an_accepted_run_is_committed_before_the_202(api: Api, held: Held) -> None:
    an_agent(model=ScriptedModel(held.respond))
    response = api.post("threads/one/runs/", text="more", state={"locale": "x", "timeout": 1})
    assert response.status_code == 202
    run = response.json()
    stored = Run.objects.get(pk=run["id"])
    assert stored.input == [{"text": "more"}]
    assert stored.state == {"locale": "x", "timeout": 1}  # keys called like options are state all the same
    assert response["Location"].endswith(f"/api/runs/{run['id']}/")
    assert api.get(f"runs/{run['id']}/").json()["id"] == run["id"]


@pytest.mark.usefixtures("chat")
def test_c5_wait_gives_the_finished_run(api: Api) -> None:
    response = api.post("threads/one/runs/?wait=10", text="more")
    assert response.status_code == 200
    assert response.json()["status"] == "completed"
    texts = [message["content"][0]["text"] for message in api.get("threads/one/messages/").json()["results"]]
    assert texts == ["hi", "hello", "more", "again"]


@pytest.mark.usefixtures("chat")
def test_a_run_that_does_not_end_in_time_is_a_202(api: Api, held: Held) -> None:
    an_agent(model=ScriptedModel(held.respond))
    response = api.post("threads/one/runs/?wait=0.3", text="more")
    assert response.status_code == 202
    assert response.json()["status"] in ("queued", "in_progress")


@pytest.mark.usefixtures("chat")
@pytest.mark.parametrize("wait", ["-1", "31", "nan", "x"])
def test_a_wait_that_is_none_is_refused_before_anything_is_written(api: Api, wait: str) -> None:
    assert code_of(api.post(f"threads/one/runs/?wait={wait}", text="more"), 400) == "invalid_option"
    assert Run.objects.count() == 1


@pytest.mark.usefixtures("chat")
def test_f07_the_same_client_id_is_the_same_run(api: Api) -> None:
    first = api.send("one", "more", client_id="c1")
    assert api.send("one", "more", client_id="c1")["id"] == first["id"]
    again = api.post("threads/one/runs/", text="more", headers={"Idempotency-Key": "c1"})
    assert again.json()["id"] == first["id"]
    assert code_of(api.post("threads/one/runs/", text="other", client_id="c1"), 409) == "client_id_conflict"
    differ = api.post("threads/one/runs/", text="more", client_id="c2", headers={"Idempotency-Key": "c1"})
    assert code_of(differ, 400) == "invalid_option"
    assert Run.objects.count() == 2


@pytest.mark.usefixtures("chat")
def test_f02_the_busy_strategy_holds_over_http(api: Api, held: Held) -> None:
    an_agent(model=ScriptedModel(held.respond))
    first = api.send("one", "one", wait=0)
    assert held.asked.wait(10)
    refused = api.post("threads/one/runs/", text="two", on_busy="reject")
    assert code_of(refused, 409) == "thread_busy"
    assert refused["Retry-After"] == "1"
    queued = api.send("one", "three", wait=0, on_busy="wait")
    assert queued["status"] == "queued"
    urgent = api.post("threads/one/runs/", text="four", on_busy="interrupt").json()
    held.go.set()
    assert api.get(f"runs/{first['id']}/").json()["status"] in ("in_progress", "failed")
    for run in (urgent, queued):
        assert _ended(api, run["id"])["status"] == "completed"
    assert _ended(api, first["id"])["error_code"] == "cancelled"
    said = list(Message.objects.filter(role="user").order_by("position").values_list("content", flat=True))
    assert [blocks[0]["text"] for blocks in said] == ["hi", "one", "four", "three"]


@pytest.mark.usefixtures("chat")
def test_f02_delete_and_rewind_honour_on_busy(api: Api, held: Held) -> None:
    an_agent(model=ScriptedModel(held.respond))
    head = api.get("threads/one/history/").json()["results"][0]["id"]
    api.send("one", "more", wait=0)
    assert held.asked.wait(10)
    for refused in (
        api.post("threads/one/rewind/", checkpoint=head, on_busy="reject"),
        api.post("threads/one/runs/", text="x", checkpoint=head, on_busy="reject"),
        api.post("threads/one/rewind/?wait=0.1", checkpoint=head),
        api.delete("threads/one/?on_busy=reject"),
    ):
        assert code_of(refused, 409) == "thread_busy"
        assert refused["Retry-After"] == "1"
    assert api.post("threads/one/rewind/", checkpoint=head, on_busy="interrupt").status_code == 200
    assert api.delete("threads/one/?on_busy=interrupt").status_code == 204


@pytest.mark.usefixtures("chat")
def test_f19_cancel_and_wait_returns_when_the_run_has_ended(api: Api, held: Held) -> None:
    an_agent(model=ScriptedModel(held.respond))
    run = api.send("one", "more", wait=0)
    assert held.asked.wait(10)
    response = api.post(f"runs/{run['id']}/cancel/?wait")
    assert response.status_code == 200
    assert response.json()["error_code"] == "cancelled"
    assert Run.objects.get(pk=run["id"]).status == "failed"
    assert Thread.objects.get().holder is None


@pytest.mark.usefixtures("chat")
def test_f20_an_old_cancel_does_not_stop_a_newer_run(api: Api, held: Held, owner: User) -> None:
    finished = Run.objects.get()
    an_agent(model=ScriptedModel(held.respond))
    run = api.send("one", "more", wait=0)
    assert held.asked.wait(10)
    assert api.post(f"runs/{finished.pk}/cancel/?wait").json()["status"] == "completed"
    assert Thread.objects.get().cancel_mark is None
    held.go.set()
    assert _ended(api, run["id"])["status"] == "completed"


@pytest.mark.usefixtures("chat")
def test_f11_cancelling_a_run_whose_process_died_frees_the_thread(api: Api) -> None:
    run = Run.objects.get()
    Run.objects.update(status="in_progress")
    Thread.objects.update(status="running", holder=None, current_run=run.pk)
    response = api.post(f"runs/{run.pk}/cancel/?wait=5")
    assert (response.status_code, response.json()["error_code"]) == (200, "cancelled")
    assert api.get("threads/one/").json()["status"] == "failed"


@pytest.mark.usefixtures("chat")
def test_a_thread_that_cannot_be_sent_to_says_why_and_when_to_come_back(api: Api) -> None:
    Run.objects.update(status="in_progress")
    Thread.objects.update(status="running", holder=None)
    refused = api.post("threads/one/runs/", text="more")
    assert code_of(refused, 409) == "thread_interrupted"
    assert int(refused["Retry-After"]) > 0


@pytest.mark.usefixtures("chat")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_option"),
        ({"text": "a", "blocks": [{"text": "b"}]}, "invalid_option"),
        ({"text": 5}, "invalid_option"),
        ({"text": " "}, "invalid_message"),
        ({"text": "\ud800"}, "invalid_message"),
        ({"blocks": [{"tool_result": {}}]}, "invalid_message"),
        ({"blocks": [{"text": "x", "provider": {"part": {}}}]}, "invalid_option"),
        ({"text": "x", "state": []}, "invalid_option"),
        ({"text": "x", "on_busy": "never"}, "invalid_option"),
        ({"text": "x", "checkpoint": "1"}, "invalid_option"),
        ({"text": "x", "locale": "\0"}, "invalid_option"),
        ({"text": "x", "client_id": ""}, "invalid_option"),
        ({"text": "x", "user": 1}, "invalid_option"),
    ],
)
def test_what_does_not_fit_is_a_400_and_writes_nothing(api: Api, body: dict[str, Any], code: str) -> None:
    assert code_of(api.post("threads/one/runs/", **body), 400) == code
    assert Run.objects.count() == 1


@pytest.mark.usefixtures("chat")
def test_a_body_that_is_no_json_object_is_a_problem(api: Api) -> None:
    path = "threads/one/runs/"
    for body in (b"", b"[1]", b"{", b'{"text": NaN}', b"\xff", b"[" * 100_000, b'{"state": ' + b'{"a":' * 100_000):
        response = api.raw("post", path, body)
        assert code_of(response, 400) in ("parse_error", "invalid_option"), body[:20]
    assert code_of(api.raw("post", path, b"<a/>", "text/xml"), 415) == "unsupported_media_type"
    assert code_of(api.raw("put", path, b"{}"), 405) == "method_not_allowed"


@pytest.mark.usefixtures("chat")
def test_a_message_that_is_too_large_is_a_413(api: Api, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"MAX_MESSAGE_BYTES": 1000}
    assert code_of(api.post("threads/one/runs/", text="x" * 1001), 413) == "message_too_large"
    assert code_of(api.post("threads/one/runs/", text="x" * 100_000), 413) == "message_too_large"
    assert api.send("one", "x" * 900)["status"] == "completed"


@pytest.mark.usefixtures("chat")
def test_f38_nul_comes_back(api: Api) -> None:
    api.send("one", "a\0b")
    contents = [message["content"] for message in api.get("threads/one/messages/").json()["results"]]
    assert [{"text": "a\0b"}] in contents


@pytest.mark.usefixtures("chat")
def test_an_agent_that_is_gone_leaves_the_thread_readable(api: Api) -> None:
    Thread.objects.update(agent="gone")
    assert code_of(api.post("threads/one/runs/", text="more"), 404) == "agent_not_found"
    assert len(api.get("threads/one/messages/").json()["results"]) == 2
    head = api.get("threads/one/history/").json()["results"][0]["id"]
    assert api.post("threads/one/rewind/", checkpoint=head).status_code == 200
    assert api.delete("threads/one/").status_code == 204


@pytest.mark.usefixtures("chat")
def test_another_agent_for_one_message(api: Api) -> None:
    an_agent("never", "I am the other", name="other")  # its second answer: one stands in the conversation already
    assert api.send("one", "more", agent="other")["agent"] == "other"
    last = api.get("threads/one/messages/").json()["results"][-1]
    assert (last["agent"], last["content"][0]["text"]) == ("other", "I am the other")
    assert code_of(api.post("threads/one/runs/", text="x", agent="nobody"), 404) == "agent_not_found"


def test_a_failed_run_says_why(api: Api, owner: User) -> None:
    an_agent("ok").thread("one", actor=owner).send_sync("hi")
    an_agent(ModelError("down", passing=False), ModelError("down", passing=False))
    run = api.send("one", "more")
    assert (run["status"], run["error_code"]) == ("failed", "model_failed")


@pytest.mark.usefixtures("chat")
def test_no_request_runs_inside_the_sites_transaction(api: Api) -> None:
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        assert api.send("one", "more")["status"] == "completed"
        assert api.get("threads/one/events/").status_code == 200
        assert api.patch("threads/one/", title="x").status_code == 200
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False


def _ended(api: Api, run_id: str) -> dict[str, Any]:
    """The run, once it has ended; asked as a client would."""
    for _ in range(200):
        run: dict[str, Any] = json.loads(api.get(f"runs/{run_id}/").content)
        if run["status"] in ("completed", "failed"):
            return run
        threading.Event().wait(0.05)
    raise AssertionError(run)
