"""Short waits, people, and their clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.support import Api, a_user
from tests.support import forget_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper


@pytest.fixture(autouse=True)
def quick(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 2, "MODEL_BACKOFF": 0.01, "MODEL_RETRIES": 0}
    yield
    forget_agents()


@pytest.fixture
def owner(transactional_db: None) -> User:
    return a_user("owner")


@pytest.fixture
def api(owner: User) -> Api:
    """The owner's client."""
    return Api(owner)


@pytest.fixture
def approver(transactional_db: None) -> User:
    return a_user("approver", "decide_toolcall", staff=True)


@pytest.fixture
def stranger(transactional_db: None) -> User:
    return a_user("stranger")
