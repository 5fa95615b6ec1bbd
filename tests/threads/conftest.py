"""Every test of a conversation has short waits, and leaves no agent behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from criogen_threads.engine.dispatch import in_process
from tests.support import forget_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import SettingsWrapper


@pytest.fixture(autouse=True)
def quick(settings: SettingsWrapper) -> Iterator[None]:
    settings.CRIOGEN_THREADS = {"BUSY_TIMEOUT": 5, "MODEL_BACKOFF": 0.01, "MODEL_RETRIES": 1}
    yield
    forget_agents()


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatcher's look for forsaken runs, begun by whichever test came first, finds nothing of this one."""
    monkeypatch.setattr(in_process, "leftovers", SimpleNamespace(forsaken=lambda worker: [], due=list))
