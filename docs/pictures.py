"""The pictures of the README, taken of the running demo: ``python -m docs.pictures`` in the repository's folder.

It needs what the tests in a browser need: Playwright and Debian's chromium.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browsers import launched
from tests.project.served import Demo

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).parent
SAID = [
    "I want a refund of 10 euros for A-1002, the shade has a dent.",
]


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Demo(Path(folder) / "demo.sqlite3") as demo,
        launched() as browser,
    ):
        options = {"viewport": {"width": 1100, "height": 720}, "device_scale_factor": 1.5, "base_url": demo.address}
        visitor, staff = (browser.new_context(**options).new_page() for _ in range(2))
        talk(visitor, SAID)
        visitor.screenshot(path=HERE / "chat.png")
        sign_in(staff, "demo-staff", demo.passwords["demo-staff"])
        staff.goto("/admin/criogen_threads/approval/")
        staff.locator("#result_list tbody tr", has_text="A-1002").get_by_role("link").first.click()
        staff.get_by_role("button", name="Approve").wait_for()
        staff.set_viewport_size({"width": 1100, "height": 1000})
        staff.screenshot(path=HERE / "console.png")


def talk(page: Any, lines: Iterable[str]) -> None:
    page.goto("/")
    for line in lines:
        field = page.get_by_role("textbox", name="Message")
        field.fill(line)
        field.press("Enter")
        page.get_by_text("waits for the staff").first.wait_for()
    page.mouse.move(0, 0)


def sign_in(page: Any, name: str, password: str) -> None:
    page.goto("/sign-in/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()


if __name__ == "__main__":
    main()
