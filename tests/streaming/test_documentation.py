"""docs/feed.md: what it names is what the code has, and its client works."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, get_args

import pytest

from criogen_threads.api.shapes import FeedPage
from criogen_threads.streaming.commands import COMMANDS
from criogen_threads.streaming.consumers import CLOSE, ThreadConsumer
from criogen_threads.streaming.feed import Frame
from criogen_threads.streaming.wires import Custom
from docs.reference import PACKAGE
from tests.processes import ROOT
from tests.streaming.puppet import wish
from tests.streaming.servers import cookie

if TYPE_CHECKING:
    from tests.streaming.conftest import Room
    from tests.streaming.servers import Web

PAGE = (ROOT / "docs" / "feed.md").read_text()


def first_cells(heading: str) -> list[str]:
    """The names in the first column of a table."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `?([\w.`, ]+?)`? \|", table, re.MULTILINE)


def test_every_custom_event_stands_on_the_page() -> None:
    assert len(first_cells("name")) == len(set(first_cells("name")))
    assert {name.removeprefix("criogen.") for name in first_cells("name")} == set(get_args(Custom))
    sources = "".join(path.read_text() for path in (PACKAGE / "streaming").glob("*.py"))
    assert set(re.findall(r'custom\("(\w+)"', sources)) == set(get_args(Custom))


def test_every_close_code_stands_on_the_page() -> None:
    table = PAGE.partition("| close |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", table, re.MULTILINE)
    told = {code: int(close) for close, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    assert told == CLOSE


def test_every_frame_of_a_client_and_of_the_server_stands_on_the_page() -> None:
    section = PAGE.partition("\n## The websocket\n")[2]
    theirs, ours = section.split("Frames of the server that are not of the feed:")
    names = [set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) - {"type"} for part in (theirs, ours)]
    assert names[0] == {*COMMANDS, *ThreadConsumer._OWN}
    said = set(re.findall(r'_say\(\s*"(\w+)"', (PACKAGE / "streaming" / "consumers.py").read_text()))
    assert said == names[1]


def test_the_fields_of_a_frame_and_of_a_poll_stand_on_the_page() -> None:
    fields = ", ".join(first_cells("field"))
    for name in Frame(1, None, []).whole:
        assert name in fields
    assert all(f"`{name}`" in PAGE for name in FeedPage().fields)


@pytest.mark.django_db(transaction=True)
async def test_c2_the_client_on_the_page_works(site: list[Web], room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(code, "docs/feed.md", "exec"), made)
    place: dict[str, Any] = {"epoch": None, "after": 0}
    who = cookie(room.session)["Cookie"]
    for text, number in (("First.", "1"), ("Second.", "2")):
        said = wish(text)
        await asyncio.to_thread(made["ask"], site[0].url(""), room.key, who, said, number, place)
        assert capsys.readouterr().out == said + text
    assert place["after"] > 0
    place["after"] = 0  # it lost what it had, and says it again: the turn is the one that there was
    await asyncio.to_thread(made["ask"], site[1].url(""), room.key, who, wish("First."), "1", place)
    assert capsys.readouterr().out == wish("First.") + "First."
