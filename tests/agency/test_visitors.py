"""Visitors who talk to an agency."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model

from criogen_threads.engine.journal import visiting
from criogen_threads.models import Run, Thread
from criogen_threads.visitors import AnonymousVisitor
from tests.agency.support import a_desk, ask, statuses
from tests.support import Gate, gated, in_db

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


async def test_whom_a_run_asks_after_its_visitor_has_signed_in_works_for_the_user(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {**settings.CRIOGEN_THREADS, "VISITOR_AGENTS": ["front"]}
    user: Any = await in_db(get_user_model().objects.create_user, "ann")
    gate = Gate()
    agency = a_desk(["done"], ["found"])
    agency.agents["front"].__dict__["backend"] = gated(gate, [ask("billing")], "done")
    chat = agency.entry.thread("one", actor=AnonymousVisitor("a" * 64, "b" * 64))
    turn = asyncio.create_task(chat.send("go"))
    await gate.reached.wait()
    assert await in_db(visiting.carry_over, "a" * 64, user.pk) == 1
    gate.open()
    await turn
    assert await in_db(statuses, "one") == [("front", "completed"), ("billing", "completed")]
    rows = await in_db(lambda: list(Run.objects.values_list("actor", "visitor")))
    assert rows == [(user.pk, "")] * 2
    assert await in_db(lambda: set(Thread.objects.values_list("owner", "visitor"))) == {(user.pk, "")}
