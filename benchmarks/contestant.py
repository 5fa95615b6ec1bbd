"""What every contestant can do, and what is written down about a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from benchmarks.workload import Spoken


@dataclass(slots=True)
class Taken:
    """What one turn took, in seconds; ``work`` is the processor time that this process spent on the saves."""

    saves: float
    work: float
    whole: float
    reads: float = 0.0
    commits: int = 0


class Contestant(Protocol):
    """One way to keep a conversation, in a database of its own."""

    name: str

    async def begin(self, key: str) -> None:
        """Begin a conversation of this name; the turns and the readings from now on are of it."""

    async def turn(self, spoken: Spoken) -> Taken:
        """Take one turn and save it."""

    async def read(self) -> int:
        """Read the whole conversation as a caller gets it; how many messages it has."""

    async def history(self) -> int:
        """Read the newest 20 checkpoints; how many there are."""

    async def close(self) -> None:
        """Let go of every connection."""
