"""Approvals over HTTP: the queue, the answers, and who comes too late."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models.functions import Now

from criogen_threads.agents import tool
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine.dispatch.in_process import InProcess
from criogen_threads.models import Event, Thread, ToolCall
from tests.api.support import Api, a_user, at_once, code_of
from tests.support import an_agent, call

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

ran: list[Any] = []


@tool(approval="staff")
def refund(order: str, amount: int) -> str:
    """Give money back."""
    ran.append((order, amount))
    return "refunded"


@tool(approval="owner")
def confirm(what: str) -> str:
    """Ask the customer."""
    ran.append(what)
    return "confirmed"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@pytest.fixture
def waiting(api: Api, owner: User) -> dict[str, Any]:
    """The run of a thread that waits for staff, twice."""
    asked = [call("refund", order="A-1", amount=5), call("refund", order="A-2", amount=7)]
    agent = an_agent(asked, "Done.", tools=[refund, confirm])
    agent.thread("one", actor=owner).send_sync("money back")
    return Thread.objects.get().current_run.pk  # type: ignore[union-attr, return-value]


def until_completed(api: Api, key: str = "one") -> dict[str, Any]:
    for _ in range(200):
        run: dict[str, Any] = api.get(f"threads/{key}/runs/").json()["results"][0]
        if run["status"] == "completed":
            return run
        threading.Event().wait(0.05)
    raise AssertionError(run)


@pytest.mark.usefixtures("waiting")
def test_the_queue_shows_what_one_may_answer_oldest_first(api: Api, approver: User) -> None:
    queue = Api(approver).get("approvals/").json()["results"]
    assert [each["arguments"]["order"] for each in queue] == ["A-1", "A-2"]
    assert queue[0]["thread"] == "one"
    assert queue[0]["version"] == Thread.objects.get().version
    assert api.get("approvals/").json()["results"] == []  # who asked does not answer
    first = Api(approver).get("approvals/?limit=1").json()
    rest = Api(approver).get(first["next"].partition("/api/")[2]).json()
    assert [each["arguments"]["order"] for each in (*first["results"], *rest["results"])] == ["A-1", "A-2"]
    assert rest["next"] is None
    assert code_of(Api(approver).get("approvals/?cursor=x"), 400) == "invalid_option"


def test_the_owners_own_approvals_are_in_their_queue(api: Api, owner: User, approver: User) -> None:
    an_agent([call("confirm", what="this")], "ok", tools=[confirm]).thread("one", actor=owner).send_sync("hi")
    assert [each["name"] for each in api.get("approvals/").json()["results"]] == ["confirm"]
    assert Api(approver).get("approvals/").json()["results"] == []
    version = api.get("threads/one/").json()["version"]
    assert api.post("threads/one/approve/", version=version).status_code == 202
    until_completed(api)
    assert ran == ["this"]


@pytest.mark.usefixtures("waiting")
def test_expired_approvals_are_not_in_the_queue(approver: User) -> None:
    ToolCall.objects.update(expires_at=Now())
    assert Api(approver).get("approvals/").json()["results"] == []


@pytest.mark.usefixtures("waiting")
def test_answers_one_by_one_then_the_run_goes_on(api: Api, approver: User) -> None:
    staff = Api(approver)
    first, second = staff.get("approvals/").json()["results"]
    answered = staff.post(f"approvals/{first['id']}/decide/", approve=True, digest=first["digest"])
    assert answered.status_code == 202
    assert answered.json()["pending"] == 1
    assert answered.json()["status"] == "requires_action"
    staff.post(f"approvals/{second['id']}/decide/", approve=False, reason="too much")
    run = until_completed(api)
    assert ran == [("A-1", 5)]
    assert run["required_action"] is None
    row = ToolCall.objects.get(pk=second["id"])
    assert (row.reason, row.decided_by) == ("too much", approver)


def test_f32_an_answer_does_not_wait_for_the_model(api: Api, owner: User, approver: User) -> None:
    go = threading.Event()

    async def respond(messages: Any, tools: Any) -> Any:
        if messages[-1]["role"] == "user":
            return [call("refund", order="A-1", amount=5)]
        while not go.is_set():
            await asyncio.sleep(0.01)
        return "Done."

    an_agent(model=ScriptedModel(respond), tools=[refund]).thread("one", actor=owner).send_sync("hi")
    staff = Api(approver)
    waiting = staff.get("approvals/").json()["results"][0]
    try:
        response = staff.post(f"approvals/{waiting['id']}/decide/", approve=True)
        assert response.status_code == 202  # and the model has not answered
        assert not Event.objects.filter(type="run_complete").exists()
    finally:
        go.set()
    until_completed(api)


@pytest.mark.usefixtures("waiting")
def test_f28_the_second_answer_is_shown_who_and_when(api: Api, approver: User) -> None:
    late = Api(a_user("late", "decide_toolcall", staff=True))
    call_id = Api(approver).get("approvals/").json()["results"][0]["id"]
    path = f"approvals/{call_id}/decide/"
    assert Api(approver).post(path, approve=True).status_code == 202
    refused = late.post(path, approve=False)
    assert code_of(refused, 409) == "resume_invalid"
    assert refused.json()["details"]["decided_by"] == "approver"
    assert refused.json()["details"]["decided_at"]
    assert Api(approver).post(path, approve=True).status_code == 202  # the same answer again: a double click
    assert Event.objects.filter(type="approval_decided").count() == 1


@pytest.mark.usefixtures("waiting")
def test_f28_a_second_approve_of_all_is_shown_who_and_when(api: Api, approver: User) -> None:
    staff, version = Api(a_user("boss", superuser=True)), Thread.objects.get().version
    assert staff.post("threads/one/approve/", version=version).status_code == 202
    until_completed(api)
    refused = staff.post("threads/one/reject/", version=version)
    assert code_of(refused, 409) == "resume_invalid"
    assert refused.json()["details"]["decided_by"] == "boss"
    assert sorted(ran) == [("A-1", 5), ("A-2", 7)]


@pytest.mark.usefixtures("waiting")
def test_f01_two_answers_at_once_one_wins(api: Api, approver: User) -> None:
    call_id = Api(approver).get("approvals/").json()["results"][0]["id"]
    path = f"approvals/{call_id}/decide/"
    people = [Api(approver), Api(a_user("second", "decide_toolcall", staff=True))]
    codes = at_once(
        [
            lambda: people[0].post(path, approve=True).status_code,
            lambda: people[1].post(path, approve=False).status_code,
        ]
    )
    assert sorted(codes) == [202, 409]
    assert ToolCall.objects.exclude(decided_at=None).count() == 1


@pytest.mark.usefixtures("waiting")
def test_f30_a_thread_that_moved_on_is_not_approved(api: Api, approver: User) -> None:
    staff = Api(approver)
    version = Thread.objects.get().version
    refused = staff.post("threads/one/approve/", version=version - 1)
    assert code_of(refused, 409) == "resume_invalid"
    assert refused.json()["details"]["version"] == version
    assert code_of(staff.post("threads/one/approve/"), 400) == "invalid_option"
    call_id = staff.get("approvals/").json()["results"][0]["id"]
    other = staff.post(f"approvals/{call_id}/decide/", approve=True, digest="0" * 64)
    assert code_of(other, 409) == "resume_invalid"
    assert ToolCall.objects.awaiting_approval().count() == 2


@pytest.mark.usefixtures("waiting")
def test_f27_an_unknown_call_is_resume_invalid_and_nothing_is_kept(api: Api, approver: User) -> None:
    staff = Api(approver)
    call_id = staff.get("approvals/").json()["results"][0]["id"]
    for unknown in ("0198c5a0-0000-7000-8000-000000000000", "x"):
        refused = staff.post("threads/one/decide/", decisions={call_id: True, unknown: True})
        assert code_of(refused, 409) == "resume_invalid"
    assert code_of(staff.post("threads/one/decide/", decisions={}), 409) == "resume_invalid"
    assert code_of(staff.post("threads/one/decide/", decisions={call_id: "yes"}), 409) == "resume_invalid"
    assert ToolCall.objects.awaiting_approval().count() == 2
    assert code_of(staff.post("approvals/x/decide/", approve=True), 404) == "not_found"


@pytest.mark.usefixtures("waiting")
def test_edited_arguments_are_validated_and_used(api: Api, approver: User) -> None:
    staff = Api(approver)
    first, second = (each["id"] for each in staff.get("approvals/").json()["results"])
    path = f"approvals/{first}/decide/"
    wrong = staff.post(path, approve=True, arguments={"order": "A-1", "amount": "many"})
    assert code_of(wrong, 400) == "invalid_arguments"
    assert code_of(staff.post(path, approve="yes"), 400) == "invalid_option"
    decisions = {first: {"approve": True, "arguments": {"order": "A-1", "amount": 3}}, second: False}
    assert staff.post("threads/one/decide/", decisions=decisions).status_code == 202
    until_completed(api)
    assert ran == [("A-1", 3)]
    assert ToolCall.objects.get(pk=first).arguments == {"order": "A-1", "amount": 5}


@pytest.mark.usefixtures("waiting")
def test_a_suspended_thread_says_so(api: Api) -> None:
    for refused in (api.post("threads/one/runs/", text="x"), api.post("threads/one/retry/")):
        assert code_of(refused, 409) == "thread_suspended"
        assert int(refused["Retry-After"]) > 0


@pytest.mark.usefixtures("waiting")
def test_an_answered_run_is_taken_up_though_its_dispatcher_was_gone(
    api: Api, approver: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError("no broker")

    monkeypatch.setattr(InProcess, "resume", broken)
    version = Thread.objects.get().version
    assert Api(approver).post("threads/one/approve/", version=version).status_code == 202
    monkeypatch.undo()
    assert Thread.objects.due().count() == 1  # type: ignore[attr-defined]
    retried = api.post("threads/one/retry/?wait=10")
    assert (retried.status_code, retried.json()["status"], retried.json()["attempt"]) == (200, "completed", 1)
