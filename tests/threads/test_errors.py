"""Every error has a code, and says so on the run."""

from __future__ import annotations

import inspect

import pytest
from django.db import transaction
from django.utils import translation

from criogen_threads import errors
from criogen_threads.models import Thread
from tests.support import an_agent, in_db, refused

PROMISED = {
    "thread_busy", "thread_suspended", "thread_interrupted", "resume_invalid", "checkpoint_not_found", "cancelled",
}  # fmt: skip
CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.CriogenError) and cls is not errors.CriogenError
]


def test_p41_one_class_a_code_and_the_promised_ones_are_there() -> None:
    codes = [cls.code for cls in CLASSES]
    assert set(codes) >= PROMISED
    assert len(codes) == len(set(codes))
    assert "error" not in codes


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.code)
def test_p41_every_error_can_be_raised_again_by_its_code(cls: type[errors.CriogenError]) -> None:
    assert errors.error_class(cls.code) is cls
    assert str(cls()) == cls.text != errors.CriogenError.text
    assert str(cls("said so", by="ann")) == "said so"
    assert cls("said so", by="ann").details == {"by": "ann"}


def test_p41_what_is_stored_is_english_and_what_is_shown_is_the_reader_s() -> None:
    error = errors.ThreadBusyError()
    with translation.override("de"):
        assert str(error) == "Another run holds the thread."
        assert error.shown == "Ein anderer Lauf hält den Thread."
        assert errors.ThreadBusyError("of one's own").shown == "of one's own"


def test_p41_an_unknown_code_is_the_base_class() -> None:
    assert errors.error_class("no such code") is errors.CriogenError


def test_p22_the_suspended_error_is_the_class_that_is_promised() -> None:
    assert issubclass(errors.ThreadSuspendedError, errors.CriogenError)
    assert errors.ThreadSuspendedError().code == "thread_suspended"


def test_b6_the_text_of_a_cancelled_run() -> None:
    assert str(errors.RunCancelledError()) == "Run cancelled by user"


@pytest.mark.django_db(transaction=True)
def test_p41_a_call_inside_the_caller_s_own_transaction_is_refused() -> None:
    chat = an_agent("one").thread("one")
    with transaction.atomic():
        for attempt in (
            lambda: chat.send_sync("a"), lambda: chat.submit_sync("a"), chat.retry_sync, chat.approve_sync,
            chat.delete_sync, chat.cancel_sync, lambda: list(chat.stream_sync("a")), lambda: chat.rewind_sync("x"),
            lambda: chat.create_event_sync("x"), lambda: chat.agent.run_sync("a"),
        ):  # fmt: skip
            with refused("in_transaction"):
                attempt()
    assert not Thread.objects.exists()
    assert chat.send_sync("a").text == "one"


@pytest.mark.django_db(transaction=True)
async def test_p41_a_sync_call_inside_an_event_loop_is_refused() -> None:
    chat = an_agent("one").thread("one")
    for attempt in (lambda: chat.send_sync("a"), chat.messages_sync, lambda: chat.agent.run_sync("a")):
        with refused("sync_in_async"):
            attempt()
    assert not await in_db(Thread.objects.exists)


@pytest.mark.django_db(transaction=True)
async def test_p41_the_code_stands_on_the_failed_run() -> None:
    chat = an_agent().thread("one")
    with refused("model_failed"):
        await chat.send("a")
    [run] = await chat.runs()
    assert run["error_code"] == "model_failed"


@pytest.mark.django_db(transaction=True)
async def test_instructions_that_raise_fail_the_run_with_a_code_and_nothing_of_the_site_s_insides() -> None:
    def instructions(context: object) -> str:
        raise RuntimeError("password=hunter2")

    chat = an_agent("one", instructions=instructions).thread("one")
    with refused("internal_error"):
        await chat.send("a")
    [run] = await chat.runs()
    assert (run["status"], run["error_code"]) == ("failed", "internal_error")
    assert "hunter2" not in run["last_error"]
