"""A thread as a file: redacted, inert, one picture of the database, and never in memory as a whole."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings as configured
from django.db import connection
from django.test import AsyncClient

from criogen_threads.admin import exports
from criogen_threads.models import ToolCall
from tests.console.support import (
    ADMIN,
    HOSTILE,
    Staff,
    a_waiting_thread,
    body,
    clerk,
    customer,
    talked,
    thread,
    told,
)  # fmt: skip
from tests.lengthen import lengthen

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)

PAD = "x" * 10_000


@pytest.mark.parametrize("kind", ["json", "md"])
def test_c7_f55_an_export_is_redacted_and_inert(boss: Staff, kind: str) -> None:
    call = a_waiting_thread(card="4111", note=HOSTILE)
    response = boss.get(f"thread/{call.thread_id}/export.{kind}")
    text = body(response)
    assert int(response["Content-Length"]) == len(text.encode())
    assert "4111" not in text
    assert "[hidden]" in text
    assert "I want my money back" in text
    assert response["Content-Disposition"].startswith("attachment")
    assert [each["action"] for each in told(thread())] == ["export"]
    if kind == "json":
        assert json.loads(text)["approvals"][0]["status"] == "awaiting_approval"
    else:
        from markdown_it import MarkdownIt

        html = MarkdownIt("commonmark", {"html": True}).render(text)
        assert "<script>" not in html
        assert "<img" not in html


def test_f36_a_long_thread_is_exported_in_little_memory(boss: Staff) -> None:
    found = talked()
    lengthen("one", 2000, PAD)
    for kind in exports.KINDS:
        boss.get(f"thread/{found.pk}/export.{kind}").close()  # what is loaded once is not counted
        tracemalloc.start()
        length = sum(map(len, boss.get(f"thread/{found.pk}/export.{kind}").streaming_content))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert length > 2000 * len(PAD)
        assert peak < length / 4, f"{kind}: {peak:,} bytes in memory, {length:,} in the file"


def test_every_row_of_a_long_thread_is_there_once_and_in_order(boss: Staff) -> None:
    agent = clerk(*(f"answer {number}" for number in range(30)))
    for number in range(30):
        agent.thread("one", actor=customer()).send_sync(f"question {number}")
    told_of = json.loads(body(boss.get(f"thread/{thread().pk}/export.json")))
    chat = agent.thread("one")
    ids = {"messages": chat.messages_sync(), "history": chat.history_sync(limit=1000), "events": chat.get_events_sync()}
    for name, rows in ids.items():
        assert [each["id"] for each in told_of[name]] == [each["id"] for each in rows if each.get("type") not in HIDDEN]
    assert [each["number"] for each in told_of["runs"]] == list(range(1, 31))


HIDDEN = {"staff_action"}  # the export itself, noted when it was made


def test_f57_an_export_is_one_picture_though_somebody_answers_meanwhile(
    boss: Staff, approver: Staff, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = a_waiting_thread()
    answering = threading.Thread(target=lambda: (approver.answer(call), connection.close()))
    approvals = exports._approvals

    def late(*given: Any) -> Iterator[dict[str, Any]]:
        answering.start()
        if connection.vendor == "postgresql":  # SQLite lets nobody write meanwhile
            answering.join()
        return approvals(*given)

    monkeypatch.setattr(exports, "_approvals", late)
    response = boss.get(f"thread/{call.thread_id}/export.json")
    answering.join()
    found = json.loads(body(response))
    assert ToolCall.objects.get(pk=call.pk).decided_by == approver.user
    assert [each["status"] for each in found["approvals"]] == ["awaiting_approval"]
    assert found["thread"]["status"] == "suspended"
    assert found["events"][-1]["seq"] == found["thread"]["seq"]


def test_c1_an_export_is_streamed_under_asgi_too(boss: Staff) -> None:
    found = talked()
    lengthen("one", 100, PAD)
    client = AsyncClient()
    client.cookies[configured.SESSION_COOKIE_NAME] = boss.client.cookies[configured.SESSION_COOKIE_NAME].value

    async def chunks() -> list[bytes]:
        response: Any = await client.get(f"{ADMIN}/thread/{found.pk}/export.md")
        assert response.is_async
        return [chunk async for chunk in response.streaming_content]

    sent = asyncio.run(chunks())
    assert len(sent) > 10
    assert b"".join(sent).decode().count("\n## ") == 100


def test_f38_a_nul_is_in_the_file(boss: Staff) -> None:
    found = talked(text="before \0 after")
    assert "before \0 after" in body(boss.get(f"thread/{found.pk}/export.md"))
    assert json.loads(body(boss.get(f"thread/{found.pk}/export.json")))["messages"][0]["content"][0]["text"][7] == "\0"
