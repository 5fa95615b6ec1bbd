"""The answer to ``subscribe``: where the thread stands, read after the feed has joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads import redaction
from criogen_threads.engine import reads, telling
from criogen_threads.engine.pools import in_database
from criogen_threads.streaming.approvals import approvals
from criogen_threads.streaming.frames import FrameInvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from criogen_threads.engine.telling import Standing
    from criogen_threads.streaming.feed import Feed
    from criogen_threads.streaming.showing import Viewer


async def subscribed(feed: Feed, frame: Mapping[str, Any]) -> dict[str, Any]:
    """Start a feed as a client asked.

    Args:
        frame: ``epoch`` and ``after``: what the client has; ``message`` and ``offset``: its half answer.

    Returns:
        ``epoch``, ``seq`` (the newest event), ``after`` (where the feed begins), ``state``, ``run`` (under way or
        waiting), ``queued`` and ``pending``. The text of a half answer follows as a live frame, behind the replay.

    Raises:
        Resync: See ``Feed.start``.
        FrameInvalidError: ``frame_invalid``.
    """
    await feed.start(**_place(frame))
    return await stands(feed)


async def stands(feed: Feed) -> dict[str, Any]:
    """Where a feed stands: see ``subscribed``."""
    standing = feed.standing
    if standing is None:
        return {"epoch": None, "seq": 0, "after": 0, "state": "absent", "run": None, "queued": [], "pending": []}
    run, queued = await in_database(_runs, standing, feed.viewer)
    return {
        "epoch": str(standing.thread_id),
        "seq": standing.seq,
        "after": feed.seq,
        "state": standing.state,
        "run": run,
        "queued": queued,
        "pending": await approvals(standing, feed.viewer) if standing.pending else [],
    }


def _runs(standing: Standing, viewer: Viewer) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    run = reads.run(standing.key, standing.run_id) if standing.run_id else None
    if run is not None:
        run = redaction.without(redaction.run(run, viewer.audience), "required_action")
    return run, telling.in_line(standing.thread_id)


def _place(frame: Mapping[str, Any]) -> dict[str, Any]:
    epoch, message = frame.get("epoch"), frame.get("message")
    after, offset = frame.get("after"), frame.get("offset", 0)
    if not all(isinstance(each, str | None) for each in (epoch, message)):
        raise FrameInvalidError("'epoch' and 'message' are text")
    if not all(each is None or (type(each) is int and 0 <= each < 2**62) for each in (after, offset)):
        raise FrameInvalidError("'after' and 'offset' are numbers")
    return {"epoch": epoch, "after": after, "message": message, "offset": offset or 0}
