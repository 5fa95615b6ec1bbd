"""What a dispatcher is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


class Dispatcher:
    """Hands runs to whatever executes them. It is given ids only: the row is the truth.

    Called in a thread without an event loop, so that it may speak to a broker or a database. What it raises is
    logged, and the run is left to ``criogen_recover``: it is saved, and nobody is refused for that.
    """

    stays: float = float("inf")
    """Seconds that a run may wait for its thread before it goes back to the end of the queue, so that it does not
    hold a worker that the run before it needs."""

    def submit(self, run_id: UUID) -> None:
        """Have a queued run executed."""
        raise NotImplementedError

    def resume(self, key: str) -> None:
        """Have a fully answered run taken up again."""
        raise NotImplementedError

    def retry(self, run_id: UUID) -> None:
        """Have an accepted retry taken up."""
        raise NotImplementedError

    def attend(self) -> None:
        """Look now and then for submitted runs that nobody executes; where something else does that, nothing."""

    def close(self) -> None:
        """Look for nothing more: another dispatcher takes over, as when a test changes the setting."""
