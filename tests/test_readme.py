"""The README: every Python snippet runs, in the order of the page, and does what the text around it says.

The first line of a snippet says where it belongs: a module of the shop (snippets of one module add up), the
settings, or the shell, which sees what the shell's earlier snippets made. The shop is an installed app, and nothing
imports its modules but what a site does.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import sys
import unittest
from copy import deepcopy
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from channels.testing import WebsocketCommunicator
from django.apps import apps
from django.conf import global_settings, settings
from django.contrib.auth.models import User
from django.test import Client, RequestFactory, override_settings
from django.urls import resolve

from criogen_threads import conf, errors, signals
from criogen_threads.admin.base import note
from criogen_threads.agents import Agency, Agent, Summary, Tool, register, registry, tool, unregister
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.checks import check_database, check_settings
from criogen_threads.management.commands.criogen_groups import OPERATOR
from criogen_threads.models import Thread
from criogen_threads.problems import STATUS
from criogen_threads.streaming.consumers import CLOSE
from criogen_threads.testing import in_calling_thread, scripted
from criogen_threads.threads import ThreadHandle
from docs.reference import ALLOWS, FILE, PACKAGE, asked_for, error_classes, reference
from project.desk.demo import seed
from project.desk.models import Order
from tests.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from django.http import HttpRequest

README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
MODULES = [
    "shop/agents.py", "shop/apps.py", "shop/policy.py", "shop/views.py", "shop/signals.py", "shop/tests.py",
    "shop/test_with_pytest.py",
]  # fmt: skip
SITE = ["mysite/urls.py", "mysite/asgi.py", "mysite/celery.py"]
LOOK_UP = [{"tool_call": {"name": "look_up_order", "arguments": {"order": "A-1001"}}}]
REFUND = [{"tool_call": {"name": "refund", "arguments": {"order": "A-1002", "amount": "10"}}}]


def snippets(place: str) -> list[str]:
    return [code for where, code in SNIPPETS if where == place]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The app that the snippets add up to, installed in the site; its models are those of the example site."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "models.py").write_text("from project.desk.models import Order\n")
    for place in MODULES:
        (tmp_path / place).write_text("\n".join(snippets(place)))
    monkeypatch.syspath_prepend(tmp_path)
    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "shop"]):
        loaded = set(sys.modules)
        assert {"shop.agents", "shop.signals"} <= loaded
        assert not {"shop.views", "shop.policy", "shop.tests"} & loaded
        for place in MODULES:
            import_module(place.removesuffix(".py").replace("/", "."))
        yield sys.modules["shop"]
    for name in ("support", "office", "porter"):
        unregister(name)
    signals.approval_requested.disconnect(sys.modules["shop.signals"].tell_staff)
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.fixture
def calling_thread(db: None) -> Iterator[None]:
    with in_calling_thread():
        seed()
        yield


def request(user: User, **data: str) -> HttpRequest:
    made = RequestFactory().post("/", data)
    made.user = user

    async def auser() -> User:
        return user

    made.auser = auser
    return made


def content(response: Any) -> dict[str, Any]:
    return {"http": response.status_code, **json.loads(response.content)}


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


@pytest.fixture
def site(shop: ModuleType) -> dict[str, ModuleType]:
    """The modules of the project, by name."""
    made = {}
    for place in SITE:
        module = made[place] = ModuleType(place.removesuffix(".py").replace("/", "."))
        for code in snippets(place):
            exec(compile(code, f"README.md: {place}", "exec"), vars(module))
    return made


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


def test_the_addresses_of_the_table_exist(site: dict[str, ModuleType]) -> None:
    table = README.partition("| below `/api/` |")[2].partition("\n\n")[0]
    addresses = [address for cell in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
                 for address in re.findall(r"([^ `]+/)`", cell)]  # fmt: skip
    assert len(addresses) >= 20
    for address in addresses:
        resolve(f"/api/{address.replace('…/', 'threads/KEY/')}", urlconf=site["mysite/urls.py"])


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


def test_the_table_of_tools_has_every_option() -> None:
    table = README.partition("| option of `@tool` |")[2].partition("\n\n")[0]
    options = set(inspect.signature(Tool.__init__).parameters) - {"self", "function"}
    assert set(re.findall(r"`(\w+)=", table)) == options


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


def test_the_codes_and_settings_that_it_names_exist() -> None:
    codes = {cls.code for cls in errors.CriogenError.__subclasses__()}
    states = README.partition("## The states of a conversation")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z]+_[a-z_]+)`", states)) - {"on_busy", "client_id"} - {"criogen_recover"} <= codes
    running = README.partition("## Running it for real")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)`", running)) - {"CONN_MAX_AGE"} <= conf.KEYS


def test_the_files_and_sections_that_it_points_to_exist() -> None:
    for path in re.findall(r"`((?:criogen_threads|project)/[\w./]*)`", README):
        assert (ROOT / path).exists(), path
    anchors = {
        line[3:].lower().replace(",", "").replace(" ", "-") for line in README.splitlines() if line.startswith("## ")
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", README)) <= anchors


def test_the_reference_is_that_of_the_code() -> None:
    assert FILE.read_text() == reference(), "it is written anew by python -m docs.reference"
    assert {f"`{key}`" for key in conf.KEYS} <= set(re.findall(r"`\w+`", reference()))


def test_every_code_stands_in_the_reference_once() -> None:
    page = reference().partition("## Errors")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert len(told) == len(set(told))
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    written = set(re.findall(r'^    code(?:: [^=]+)? = "(\w+)"', sources, re.MULTILINE))
    assert written - {"error"} == {cls.code for cls in error_classes()} <= set(told)
    assert {*STATUS, *CLOSE} <= set(told)
    for code in ("authentication_failed", "not_found", "parse_error", "method_not_allowed", "throttled"):
        assert code in told


def test_every_permission_that_is_asked_for_stands_in_the_reference() -> None:
    declared = {name for model in apps.get_app_config("criogen_threads").get_models()
                for name, _ in model._meta.permissions}  # fmt: skip
    assert asked_for() == set(ALLOWS) >= {*declared, *OPERATOR}


def events_of_the_code() -> set[str]:
    """The types of the events that the package writes, as constants or by a name that has one of two."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        chosen = {target.id: node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
                  for target in node.targets if isinstance(target, ast.Name)}  # fmt: skip
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name not in {"event", "note_call", "create_event_sync"}:
                continue
            for argument in node.args[:2]:
                value = chosen.get(argument.id) if isinstance(argument, ast.Name) else argument
                parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                found |= {part.value for part in parts if isinstance(part, ast.Constant) and type(part.value) is str}
    return found


def events_of_the_site(shop: ModuleType) -> list[dict[str, Any]]:
    """What a site sees of turns with tools, approvals, other agents, a summary, a cut, a rewind and its staff."""
    broken = [{"tool_call": {"name": "look_up_order", "arguments": {"order": "none"}}}]
    chat = shop.agents.support.thread("t")
    with scripted("support", LOOK_UP, broken, REFUND, "Done.", REFUND, "No.", RuntimeError("gone")):
        chat.send_sync("Everything, please")
        chat.approve_sync()
        chat.send_sync("Once more")
        chat.reject_sync("no")
        with pytest.raises(errors.ModelFailedError):
            chat.send_sync("And more")
    boss = User.objects.create_superuser("boss")
    note(Thread.objects.get(key="t"), boss, "rewind", checkpoint="…", version=1)
    chat.rewind_sync(chat.history_sync()[-1]["id"])

    office = shop.agents.office.create_thread_sync(thread_id="office")
    ask = [{"tool_call": {"name": "delegate", "arguments": {"agent": "billing", "message": "Which rate?"}}}]
    leave = [{"tool_call": {"name": "hand_over", "arguments": {"agent": "billing"}}}]
    with scripted("front", ask, leave), scripted("billing", "19 %", "I go on."):
        office.send_sync("How much tax is that?")
    office.switch_sync("front")
    answer_one_below()

    brief = Agent("brief", model=ScriptedModel(lambda *_: "hm"), window=Summary(keep=1, every=1)).thread("long")
    for text in ("one", "two", "three"):
        brief.send_sync(text)
    found = events_of_all()
    brief.trim_sync(keep=1)
    return [*found, *brief.get_events_sync(type="history_cut")]


def answer_one_below() -> None:
    """Two calls of an asked agent wait; one of them is answered."""

    @tool(approval="owner")
    def sign() -> str:
        return "signed"

    ask = [{"tool_call": {"name": "delegate", "arguments": {"agent": "clerk", "message": "Sign twice"}}}]
    clerk = Agent("clerk", model=ScriptedModel.of([{"tool_call": {"name": "sign", "arguments": {}}}] * 2), tools=[sign])
    till = register(Agency("till", entry=Agent("till", model=ScriptedModel.of(ask)), specialists=[clerk]))
    chat = till.create_thread_sync(thread_id="till")
    first, _ = chat.send_sync("Please").pending
    chat.decide_sync({first["id"]: True})
    unregister("till")


def events_of_all() -> list[dict[str, Any]]:
    """The events of every thread, also of those of asked agents."""
    agent = Agent("anybody", model=ScriptedModel(lambda *_: ""))
    keys = Thread.objects.values_list("key", flat=True)
    return [event for key in keys for event in ThreadHandle(key, agent=agent).get_events_sync()]


def test_the_events_table_is_complete(shop: ModuleType, calling_thread: None) -> None:
    table = README.partition("| event | `details`")[2].partition("\n\n")[0]
    rows = {event: cells for event, *cells in re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", table, re.MULTILINE)}
    events = events_of_the_site(shop)
    by_id = {event["id"]: event for event in events}
    assert events_of_the_code() == set(rows)
    assert {event["type"] for event in events} == set(rows)
    for event in events:
        details, below = rows[event["type"]]
        assert {f"`{name}`" for name in event["details"]} <= set(re.findall(r"`\w+`", details)), event
        parent = by_id[event["parent_id"]]["type"] if event["parent_id"] else "nothing"
        assert parent in below, event
