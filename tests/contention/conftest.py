"""Crowds wait for as long as it takes, and leave no agent behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import forget_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper


@pytest.fixture(autouse=True)
def patient(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 60, "MODEL_BACKOFF": 0.01}
    yield
    forget_agents()
