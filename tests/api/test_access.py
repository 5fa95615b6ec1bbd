"""The table: every endpoint, and what each kind of person gets from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.urls import get_resolver

from criogen_threads.agents import tool
from criogen_threads.models import Checkpoint, Message, Run, Thread, ToolCall
from tests.api.support import Api, a_user, code_of
from tests.support import an_agent, call

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)

PEOPLE = ("nobody", "stranger", "owner", "viewer", "approver", "superuser")

# One line for each endpoint: what the six get. The thread waits for an approval of staff.
TABLE: dict[str, tuple[int, int, int, int, int, int]] = {
    "GET threads/": (401, 200, 200, 200, 200, 200),
    "POST threads/": (401, 201, 201, 201, 201, 201),
    "GET threads/{key}/": (401, 404, 200, 200, 404, 200),
    "PATCH threads/{key}/": (401, 404, 200, 403, 404, 403),
    "DELETE threads/{key}/": (401, 404, 204, 403, 404, 204),
    "GET threads/{key}/messages/": (401, 404, 200, 200, 404, 200),
    "GET threads/{key}/messages/{id}/siblings/": (401, 404, 200, 200, 404, 200),
    "GET threads/{key}/history/": (401, 404, 200, 200, 404, 200),
    "GET threads/{key}/events/": (401, 404, 200, 200, 404, 200),
    "GET threads/{key}/feed/": (401, 404, 200, 200, 404, 200),
    "GET threads/{key}/runs/": (401, 404, 200, 200, 404, 200),
    "POST threads/{key}/runs/": (401, 404, 409, 403, 404, 403),
    "POST threads/{key}/retry/": (401, 404, 409, 403, 404, 409),
    "POST threads/{key}/rewind/": (401, 404, 200, 403, 404, 200),
    "POST threads/{key}/approve/": (401, 404, 403, 403, 202, 202),
    "POST threads/{key}/reject/": (401, 404, 403, 403, 202, 202),
    "POST threads/{key}/decide/": (401, 404, 403, 403, 202, 202),
    "GET runs/{id}/": (401, 404, 200, 200, 404, 200),
    "GET runs/{id}/tree/": (401, 404, 200, 200, 404, 200),
    "POST runs/{id}/cancel/": (401, 404, 200, 403, 404, 200),
    "GET approvals/": (401, 200, 200, 200, 200, 200),
    "POST approvals/{id}/decide/": (401, 404, 403, 403, 202, 202),
    "GET agents/": (401, 200, 200, 200, 200, 200),
    "GET schema/": (401, 200, 200, 200, 200, 200),
}


@tool(approval="staff")
def refund() -> str:
    """Give money back."""
    return "refunded"


def body_of(endpoint: str) -> dict[str, Any]:
    thread = Thread.objects.get(key="one")
    call_id = str(ToolCall.objects.get().pk)
    bodies: dict[str, dict[str, Any]] = {
        "POST threads/": {"agent": "helper"},
        "PATCH threads/{key}/": {"title": "x"},
        "POST threads/{key}/runs/": {"text": "x"},
        "POST threads/{key}/rewind/": {"checkpoint": str(Checkpoint.objects.order_by("version").first().pk)},  # type: ignore[union-attr]
        "POST threads/{key}/approve/": {"version": thread.version},
        "POST threads/{key}/reject/": {"version": thread.version},
        "POST threads/{key}/decide/": {"decisions": {call_id: True}},
        "POST approvals/{id}/decide/": {"approve": True},
    }
    return bodies.get(endpoint, {})


def path_of(endpoint: str) -> str:
    row: Any = ToolCall.objects.get() if "approvals" in endpoint else Run.objects.get()
    if "siblings" in endpoint:
        row = Message.objects.earliest("position")
    return endpoint.partition(" ")[2].format(key="one", id=row.pk)


@pytest.fixture
def people() -> dict[str, Any]:
    found = {
        "nobody": None,
        "stranger": a_user("stranger"),
        "owner": a_user("owner"),
        "viewer": a_user("viewer", "view_thread", "view_transcript", staff=True),
        "approver": a_user("approver", "decide_toolcall", staff=True),
        "superuser": a_user("superuser", superuser=True),
    }
    an_agent([call("refund")], "ok", tools=[refund]).thread("one", actor=found["owner"]).send_sync("hi")
    return found


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize("endpoint", TABLE)
def test_who_may_do_what(people: dict[str, Any], endpoint: str, person: str) -> None:
    api = Api(people[person])
    method, path = endpoint.partition(" ")[0], path_of(endpoint)
    do: dict[str, Callable[[], Any]] = {
        "GET": lambda: api.get(path),
        "DELETE": lambda: api.delete(path),
        "POST": lambda: api.post(path, **body_of(endpoint)),
        "PATCH": lambda: api.patch(path, **body_of(endpoint)),
    }
    response = do[method]()
    assert response.status_code == TABLE[endpoint][PEOPLE.index(person)], response.content
    if response.status_code >= 400:
        assert response["Content-Type"] == "application/problem+json"


def test_the_table_names_every_endpoint() -> None:
    """C5: the API is made of viewsets, and each method of each of them stands in the table."""
    [api] = [each for each in get_resolver("project.urls").url_patterns if str(each.pattern) == "api/"]
    found = set()
    for pattern in api.url_patterns:
        if not getattr(pattern, "callback", None):
            continue  # the streaming addresses: tested there
        path = str(pattern.pattern).replace("<str:key>", "{key}").replace("<str:id>", "{id}")
        actions = getattr(pattern.callback, "actions", None) or {"get": "get"}
        found |= {f"{method.upper()} {path}" for method in actions if method != "head"}
    assert found == set(TABLE)


def test_a_stranger_cannot_tell_a_thread_that_is_there_from_one_that_is_not(people: dict[str, Any]) -> None:
    api = Api(people["stranger"])

    def answer(key: str) -> list[dict[str, Any]]:
        return [
            api.get(f"threads/{key}/").json(),
            api.post(f"threads/{key}/runs/", text="x").json(),
            api.post(f"threads/{key}/runs/", text="x", agent="helper").json(),
            api.post(f"threads/{key}/approve/", version=1).json(),
            api.post(f"threads/{key}/retry/").json(),
            api.delete(f"threads/{key}/").json(),
        ]

    assert answer("one") == answer("none")


def test_a_user_who_was_deactivated_is_nobody(people: dict[str, Any]) -> None:
    api = Api(people["owner"])
    people["owner"].is_active = False
    people["owner"].save()
    refused = api.get("threads/one/")
    assert code_of(refused, 401) == "not_authenticated"
    assert refused["WWW-Authenticate"]
