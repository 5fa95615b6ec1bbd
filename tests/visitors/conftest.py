"""A site that lets visitors talk to its helper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import forget_agents
from tests.visitors.support import Guest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper


@pytest.fixture(autouse=True)
def visitors(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"VISITOR_AGENTS": ["helper"], "BUSY_TIMEOUT": 5, "MODEL_RETRIES": 0}
    yield
    forget_agents()


@pytest.fixture
def guest(transactional_db: None) -> Guest:
    return Guest()


@pytest.fixture
def other(transactional_db: None) -> Guest:
    """Another visitor, from another address."""
    return Guest("198.51.100.9")
