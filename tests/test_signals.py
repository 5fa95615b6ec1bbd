"""Signals come after the commit, once, and a receiver that fails hurts nobody."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import transaction

from criogen_threads import signals
from criogen_threads.models import Thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.dispatch import Signal

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> Iterator[list[dict[str, Any]]]:
    """What a receiver of ``run_started`` got."""
    calls: list[dict[str, Any]] = []

    def receiver(sender: object, signal: Signal, **arguments: Any) -> None:
        calls.append({"sender": sender, **arguments})

    signals.run_started.connect(receiver)
    yield calls
    signals.run_started.disconnect(receiver)


def test_sent_once_and_only_after_the_commit(heard: list[dict[str, Any]]) -> None:
    thread_id = uuid4()
    with transaction.atomic():
        signals.send_after_commit(signals.run_started, "user-42", thread_id, agent="desk", attempt=1)
        assert heard == []
    assert heard == [{"sender": Thread, "thread": "user-42", "thread_id": thread_id, "agent": "desk", "attempt": 1}]


def test_not_sent_when_the_transaction_is_rolled_back(heard: list[dict[str, Any]]) -> None:
    with transaction.atomic():
        signals.send_after_commit(signals.run_started, "user-42", uuid4())
        transaction.set_rollback(True)
    assert heard == []


def test_sent_at_once_without_a_transaction(heard: list[dict[str, Any]]) -> None:
    signals.send_after_commit(signals.run_started, "user-42", uuid4())
    assert len(heard) == 1


def test_a_receiver_that_raises_is_logged_and_the_others_still_hear(
    caplog: pytest.LogCaptureFixture, heard: list[dict[str, Any]]
) -> None:
    def broken(sender: object, **arguments: Any) -> None:
        raise RuntimeError("no")

    signals.run_started.connect(broken)
    try:
        with caplog.at_level(logging.ERROR, "django.dispatch"), transaction.atomic():
            signals.send_after_commit(signals.run_started, "user-42", uuid4())
    finally:
        signals.run_started.disconnect(broken)
    assert len(heard) == 1
    assert "RuntimeError: no" in caplog.text
