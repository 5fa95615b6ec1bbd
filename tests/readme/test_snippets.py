"""Every Python snippet of the README runs, in the order of the page, and does what the text around it says."""

from __future__ import annotations

import asyncio
import re
import unittest
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import global_settings
from django.contrib.auth.models import User
from django.test import Client, RequestFactory, override_settings

from criogen_threads.agents import registry
from criogen_threads.checks import check_database, check_settings
from criogen_threads.testing import in_calling_thread, scripted
from project.desk.models import Order
from tests.readme.support import LOOK_UP, MODULES, README, REFUND, SITE, SNIPPETS, content, request, snippets

if TYPE_CHECKING:
    from types import ModuleType


def test_every_python_snippet_is_run_by_this_module() -> None:
    assert len(SNIPPETS) == README.count("```python") >= 14
    assert {where for where, _ in SNIPPETS} == {"settings.py", "shell", "shop/models.py", *MODULES, *SITE}


def test_the_settings_pass_the_checks(shop: ModuleType) -> None:
    begun: dict[str, Any] = {}
    for code in snippets("settings.py"):
        values: dict[str, Any] = {"INSTALLED_APPS": [], "DATABASES": deepcopy(begun.get("DATABASES", {}))}
        exec(code, values)
        values.pop("__builtins__")
        begun = begun or values
        if values["DATABASES"]:
            entry = values["DATABASES"]["default"]
            assert "sqlite3" not in entry["ENGINE"] or entry["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
            assert entry.get("CONN_MAX_AGE", global_settings.__dict__.get("CONN_MAX_AGE", 0)) == 0
        with override_settings(CRIOGEN_THREADS=values.get("CRIOGEN_THREADS", {})):
            assert check_settings() == []
    assert list(check_database()) == []


def test_the_site_serves_the_views_and_the_api(
    shop: ModuleType, site: dict[str, ModuleType], calling_thread: None
) -> None:
    ada = User.objects.create_user("ada")
    client = Client()
    client.force_login(ada)
    with override_settings(ROOT_URLCONF=site["mysite/urls.py"]), scripted("support", "Hello Ada."):
        assert client.post("/ask/", {"text": "Hello"}).json()["text"] == "Hello Ada."
        assert {"name": "support", "description": ""} in client.get("/api/agents/").json()["results"]
        chat = client.get("/ticket/").json()
        assert client.get(f"/api/threads/{chat['key']}/").json()["owner"] == str(ada.pk)
        thread = client.post("/api/threads/", {"ticket": chat["ticket"]}, content_type="application/json")
        assert (thread.status_code, thread.json()["key"]) == (200, chat["key"])
        listing = RequestFactory().get("/")
        listing.user = ada
        assert content(shop.views.conversations(listing))["keys"] == [chat["key"]]
        assert set(content(shop.views.health(listing))) == {"http", "workers", "interrupted", "answered", "queued"}


@in_calling_thread()
async def test_the_site_serves_the_websocket(site: dict[str, ModuleType], db: None) -> None:
    socket = WebsocketCommunicator(site["mysite/asgi.py"].application, "/ws/threads/user-1/")
    assert (await socket.connect())[0]
    assert (await socket.receive_json_from())["code"] == "not_authenticated"
    await socket.disconnect()


def test_celery_finds_the_task(site: dict[str, ModuleType]) -> None:
    app = site["mysite/celery.py"].app
    app.loader.import_default_modules()
    assert "criogen_threads.run_job" in app.tasks


def test_the_agent_is_registered(shop: ModuleType) -> None:
    assert registry.get_agent("support") is shop.agents.support
    assert list(shop.agents.support.tools) == ["look_up_order", "refund"]
    assert not registry.conflicts()


def test_b19_the_porter_needs_no_model_for_its_opening_hours(shop: ModuleType, calling_thread: None) -> None:
    with scripted("porter", "By the model.") as model:
        chat = shop.agents.porter.thread("t")
        assert chat.send_sync("What are your opening hours?").text == "Every day from 9 to 5."
        assert model.requests == []
        assert chat.send_sync("And your name?").text == "By the model."


def test_b16_b17_the_office_asks_its_specialist(shop: ModuleType, calling_thread: None) -> None:
    ask = [{"tool_call": {"name": "delegate", "arguments": {"agent": "billing", "message": "Which rate?"}}}]
    with scripted("front", ask, "It is 19 %.") as front, scripted("billing", "19 %") as billing:
        reply = shop.agents.ask_the_office("How much tax is that?", None)
    assert reply == {"text": "It is 19 %.", "status": "completed"}
    assert (len(front.requests), len(billing.requests)) == (2, 1)


def test_the_shell_snippets(shop: ModuleType, calling_thread: None, capsys: pytest.CaptureFixture[str]) -> None:
    answers = {
        "support.run_sync": (LOOK_UP, "It is shipped.", "Hello Ada.", "Your name is Ada."),
        "rewind_sync": ("Hello once more, Ada.",),
        "siblings_sync": ("It is shipped.",),
        "submit_sync": (),
        "create_event_sync": (LOOK_UP, "It is shipped."),
        "timedelta": (),
    }
    shell: dict[str, Any] = {}
    for code in snippets("shell"):
        words = next(word for word in answers if word in code)
        with scripted("support", *answers[words]) as model:
            exec(code, shell)
        assert len(model.requests) == len(answers.pop(words))
    assert not answers
    printed = capsys.readouterr().out
    assert "Your name is Ada.\n['user', 'assistant', 'user', 'assistant']\n" in printed
    assert "1 input in_progress\nHello once more, Ada.\n" in printed
    assert "Where is order A-1001? False" in printed
    assert "queued\n" in printed
    assert re.search(r"AGENT_START - Agent: support\n.*TOOL_START.*TOOL_COMPLETE", printed, re.DOTALL)


def test_c7_the_policy_of_the_site_keeps_the_office_for_the_staff(
    shop: ModuleType, site: dict[str, ModuleType], calling_thread: None
) -> None:
    seen = []
    for user in (User.objects.create_user("ada"), User.objects.create_user("boss", is_staff=True)):
        client = Client()
        client.force_login(user)
        with override_settings(ROOT_URLCONF=site["mysite/urls.py"], CRIOGEN_THREADS=policy_of_the_readme()):
            seen.append({agent["name"] for agent in client.get("/api/agents/").json()["results"]})
    assert seen[1] - seen[0] == {"front", "billing"}
    assert "support" in seen[0]


def policy_of_the_readme() -> dict[str, Any]:
    values: dict[str, Any] = {}
    [code] = [code for code in snippets("settings.py") if '"POLICY"' in code]
    exec(code, values)
    return values["CRIOGEN_THREADS"]


def test_the_view_and_the_states(shop: ModuleType, calling_thread: None) -> None:
    ada = User.objects.create_user("ada")
    with scripted("support", "Hello Ada.", REFUND):
        assert content(shop.views.ask(request(ada, text="Hello", id="1"))) == {
            "http": 200, "status": "completed", "text": "Hello Ada.", "pending": [],
        }  # fmt: skip
        assert content(shop.views.ask(request(ada, text="Hello", id="1")))["text"] == "Hello Ada."
        assert content(shop.views.ask(request(ada, text="Bye", id="1")))["code"] == "client_id_conflict"
        assert content(shop.views.ask(request(ada, text="Refund it")))["status"] == "suspended"
        again = content(shop.views.ask(request(ada, text="Well?")))
    assert (again["http"], again["code"]) == (409, "thread_suspended")


@in_calling_thread()
async def test_the_streamed_view(shop: ModuleType, db: None) -> None:
    ada = await User.objects.acreate(username="ada")
    with scripted("support", "Hello Ada, in a few pieces."):
        response = await shop.views.ask_streamed(request(ada, text="Hello"))
        assert b"".join([piece async for piece in response]).decode() == "Hello Ada, in a few pieces."
        response = await shop.views.ask_streamed(request(ada, text=" "))
        assert b"the message is empty" in b"".join([piece async for piece in response])


def test_the_approvals_view_and_the_signal(
    shop: ModuleType, calling_thread: None, caplog: pytest.LogCaptureFixture
) -> None:
    ada, boss = User.objects.create_user("ada"), User.objects.create_superuser("boss")
    key = f"user-{ada.pk}"
    with scripted("support", REFUND, "Done."):
        shop.views.ask(request(ada, text="Refund it"))
        asking = RequestFactory().get("/")
        asking.user = boss
        [call] = content(shop.views.approvals(asking, key))["waiting"]
        wrong = request(boss, call=call["id"], answer="yes", digest="0" * 64)
        assert content(shop.views.approvals(wrong, key))["code"] == "resume_invalid"
        right = request(boss, call=call["id"], answer="yes", digest=call["digest"])
        assert content(shop.views.approvals(right, key))["text"] == "Done."
    assert Order.objects.get(number="A-1002").refunded == 10
    assert caplog.messages == [f"refund waits for an approval in the conversation {key}"]


@pytest.mark.django_db
def test_the_tests_of_the_site(shop: ModuleType) -> None:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(shop.tests.SupportTests)
    result = unittest.TestResult()
    suite.run(result)
    assert (result.testsRun, result.failures, result.errors) == (3, [], [])


def test_the_pytest_test_of_the_site(shop: ModuleType, db: None) -> None:
    assert not asyncio.iscoroutinefunction(shop.test_with_pytest.test_the_desk_says_hello)
    shop.test_with_pytest.test_the_desk_says_hello(db)
