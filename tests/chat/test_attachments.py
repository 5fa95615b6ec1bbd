"""Images and files of a message: shown where nothing is asked of anybody else for them, and named else."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsers import aside, faults
from tests.chat.support import answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)


def png(width: int, height: int, said: tuple[int, int] | None = None) -> str:
    """A red image; ``said`` is the size that its head speaks of."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * width) * height
    head = struct.pack(">IIBBBBB", *(said or (width, height)), 8, 2, 0, 0, 0)
    image = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b64encode(b"\x89PNG\r\n\x1a\n" + image).decode()


SVG = b64encode(b'<svg xmlns="http://www.w3.org/2000/svg"><script>window.hacked=1</script></svg>').decode()
BLOCKS: list[dict[str, Any]] = [
    {"text": "Look at these."},
    {"image": {"data": png(300, 20), "media_type": "image/png", "name": "the lamp"}},
    {"image": {"url": f"data:image/png;base64,{png(4000, 10)}", "name": "a wide one"}},
    {"image": {"url": "/static/admin/img/icon-yes.svg", "name": "of this site"}},
    {"image": {"url": "https://evil.example/pixel.png", "name": "of another site"}},
    {"image": {"url": "javascript:window.hacked=1", "name": "a script"}},
    {"image": {"data": SVG, "media_type": "image/svg+xml", "name": "a drawing"}},
    {"image": {"data": b64encode(b"no image").decode(), "media_type": "image/png", "name": "broken"}},
    {"image": {"data": png(1, 1, said=(30_000, 30_000)), "media_type": "image/png", "name": "a bomb"}},
    {"image": {"url": "/static/nothing.png", "name": "gone"}},
    {"file": {"url": "/static/admin/img/icon-yes.svg", "name": "a file"}},
]
SHOWN = ["the lamp", "a wide one", "of this site"]
NAMED = ["of another site", "a script", "a drawing", "broken", "a bomb", "gone", "a file"]


def test_f56_images_of_this_site_are_shown_and_all_others_named(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="404 (Not Found)")
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    aside(visitor.handle().send_sync, BLOCKS)
    page = visitor.open()
    answers(page).first.wait_for()
    for name in SHOWN:
        page.get_by_role("img", name=f"Attachment {name}", exact=True).wait_for()
    page.wait_for_load_state("networkidle")
    for name in NAMED:
        page.get_by_text(f"Attachment {name}", exact=True).wait_for()
    assert page.locator(".picture").count() == len(SHOWN)
    sizes = page.locator("canvas").evaluate_all("all => all.map(each => [each.width, each.height])")
    assert sizes == [[300, 20], [1024, 3]]
    colour = "each => [...each.getContext('2d').getImageData(1, 1, 1, 1).data]"
    assert page.locator("canvas").first.evaluate(colour) == [255, 0, 0, 255]
    assert page.evaluate("window.hacked") is None
    assert all(url.startswith((visitor.address, "ws://127.0.0.1")) for url in asked), asked
    assert not faults(page)
    visitor.picture("attachments")


def test_an_image_stays_in_its_frame(visit: Callable[..., Visitor]) -> None:
    visitor = visit(viewport={"width": 360, "height": 640})
    aside(
        visitor.handle().send_sync, [{"text": "Look."}, {"image": {"data": png(900, 900), "media_type": "image/png"}}]
    )
    page = visitor.open()
    box = page.locator("canvas").bounding_box()
    assert box["width"] <= 320
    assert abs(box["width"] - box["height"]) < 2
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_an_image_is_there_as_soon_as_it_is_sent(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    image = {"image": {"data": png(30, 30), "media_type": "image/png", "name": "the lamp"}}
    aside(visitor.handle().send_sync, [{"text": "Look."}, image])
    page.get_by_role("img", name="Attachment the lamp").wait_for()
    page.reload()
    page.get_by_role("img", name="Attachment the lamp").wait_for()
