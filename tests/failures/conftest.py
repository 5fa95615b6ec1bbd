"""Short waits, and no agent is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import forget_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper


@pytest.fixture(autouse=True)
def quick(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 5, "MODEL_BACKOFF": 0.01, "MODEL_RETRIES": 0}
    yield
    forget_agents()
