"""The server that plays the recorded conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.backends.support import Replay
from tests.replay.support import Conversation

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def replay_server() -> Iterator[Replay]:
    with Replay() as server:
        yield server


@pytest.fixture
def replay(replay_server: Replay) -> Replay:
    """The server, without counts and faults of earlier tests."""
    replay_server.state.reset()
    replay_server.state.chunk = 40  # characters in a piece: enough pieces, and not a test of the server's speed
    return replay_server


@pytest.fixture
def conversation(recording_id: str) -> Conversation:
    return Conversation(recording_id)
