"""The README's table of events has every event, with its details and what it hangs below."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from criogen_threads import errors
from criogen_threads.admin.base import note
from criogen_threads.agents import Agency, Agent, Summary, register, tool, unregister
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.models import Thread
from criogen_threads.testing import scripted
from criogen_threads.threads import ThreadHandle
from docs.reference import PACKAGE
from tests.readme.support import LOOK_UP, README, REFUND

if TYPE_CHECKING:
    from types import ModuleType


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
