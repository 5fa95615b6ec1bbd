"""Staff with browsers, and conversations for them to look at."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.test import Client

from criogen_threads.agents import tool
from criogen_threads.models import Event, Run, Thread, ToolCall, Worker
from tests.api.support import a_user
from tests.support import an_agent
from tests.support import call as asks

if TYPE_CHECKING:
    from collections.abc import Callable

ADMIN = "/admin/criogen_threads"

HOSTILE = (
    "<script>alert(1)</script> ![x](https://evil.example/p.png) [y](javascript:alert(2)) <img src=x onerror=alert(3)>"
    " \u202e\u2066 ``` </details></li> {{ 7|add:7 }}"
)

ran: list[Any] = []


@tool(approval="staff", secrets=["card"], expires_in=3600)
def refund(order: str, amount: int, note: str = "", card: str = "", urgent: bool = False) -> str:
    """Give money back to the customer.

    Args:
        order: The order's number.
    """
    ran.append((order, amount, note, card, urgent))
    return f"refunded {amount}"


@tool(read_only=True)
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: paid"


@tool
def mail(to: str) -> str:
    """Write to somebody."""
    ran.append(to)
    return "sent"


TOOLS = [refund, look_up, mail]


class Staff:
    """A user with a test client, logged in."""

    def __init__(self, name: str, *permissions: str, staff: bool = True, superuser: bool = False) -> None:
        self.user = a_user(name, *permissions, staff=staff, superuser=superuser)
        self.client = Client()
        self.client.force_login(self.user)

    def get(self, path: str, **options: Any) -> Any:
        return self.client.get(path if path.startswith("/") else f"{ADMIN}/{path}", **options)

    def post(self, path: str, data: dict[str, Any] | None = None, **options: Any) -> Any:
        return self.client.post(path if path.startswith("/") else f"{ADMIN}/{path}", data or {}, **options)

    def text(self, path: str) -> str:
        response = self.get(path)
        assert response.status_code == 200, (path, response.status_code)
        return str(response.content.decode())

    def answer(self, call: ToolCall, verb: str = "approve", follow: bool = True, **data: Any) -> Any:
        given = {"verb": verb, "digest": call.arguments_digest, **data}
        return self.post(f"approval/{call.pk}/answer/", given, follow=follow)


def customer(name: str = "ann") -> Any:
    found = get_user_model().objects.filter(username=name).first()
    return found or a_user(name)


def clerk(*answers: Any, **options: Any) -> Any:
    """An agent with the tools above."""
    return an_agent(*answers, **{"name": "clerk", "tools": TOOLS, **options})


def a_waiting_thread(key: str = "one", last: Any = "All done.", **arguments: Any) -> ToolCall:
    """A thread that waits for the staff to approve a refund."""
    given = {"order": "A-1", "amount": 5, **arguments}
    agent = clerk([asks("look_up", order="A-1")], [asks("refund", **given)], last)
    agent.thread(key, actor=customer()).send_sync("I want my money back")
    return ToolCall.objects.select_related("thread").get(thread__key=key, status="awaiting_approval")


def eventually(look: Callable[[], bool]) -> None:
    """Wait until it is so."""
    pause = threading.Event()
    for _ in range(400):
        if look():
            return
        pause.wait(0.025)
    raise AssertionError("it never was so")


def completed(key: str = "one") -> None:
    """Wait until the thread's newest run has completed."""
    eventually(lambda: Run.objects.filter(thread__key=key).order_by("-number")[0].status == "completed")


def body(response: Any) -> str:
    """What a response that is sent in chunks says."""
    return b"".join(response.streaming_content).decode()


def thread(key: str = "one") -> Thread:
    return Thread.objects.select_related("head", "current_run").get(key=key)


def talked(key: str = "one", *answers: Any, text: str = "hello") -> Thread:
    """A thread in which a customer has said this."""
    clerk(*(answers or ["Good day."])).thread(key, actor=customer()).send_sync(text)
    return thread(key)


def told(found: Thread) -> list[dict[str, Any]]:
    """What the staff did, as the thread's own record says."""
    return [event.details for event in Event.objects.filter(thread=found, type="staff_action").order_by("seq")]


def held(found: Thread) -> None:
    """As if another process worked on it."""
    worker = Worker.objects.create(host="there", pid=1, expires_at="2999-01-01T00:00Z")
    Thread.objects.filter(pk=found.pk).update(status="running", holder=worker.pk)
