"""A thread driven at random, compared with a small model of what it promises.

``CRIOGEN_LONG=1`` makes many more and longer runs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.machine import ThreadMachine
from tests.machine.rows import append_only
from tests.support import forget_agents

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]

LONG = bool(os.environ.get("CRIOGEN_LONG"))


def test_a_thread_keeps_its_promises_whatever_is_done_with_it(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {
        "BUSY_TIMEOUT": 5, "MODEL_BACKOFF": 0.01, "DISPATCHER": "criogen_threads.testing.LeftInLine",
    }  # fmt: skip
    try:
        with append_only():
            run_state_machine_as_test(ThreadMachine, settings=PROFILE)
    finally:
        forget_agents()


PROFILE = settings(
    max_examples=1500 if LONG else 100,
    stateful_step_count=100 if LONG else 40,
    deadline=None,
    database=None,
    print_blob=True,
    report_multiple_bugs=False,
    phases=[Phase.generate, Phase.shrink] if LONG else [Phase.generate],  # shrinking takes minutes
    suppress_health_check=list(HealthCheck),
)
