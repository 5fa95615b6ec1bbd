"""Every test of agencies has short waits, and leaves no agent behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agency.support import forget_agencies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper


@pytest.fixture(autouse=True)
def quick(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 10, "MODEL_BACKOFF": 0.01, "MODEL_RETRIES": 1}
    yield
    forget_agencies()
