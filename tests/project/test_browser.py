"""The site in a real browser, as ``manage.py demo`` serves it.

``SCREENSHOTS`` names a folder that gets a picture of every page, light and dark, wide and narrow.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsers import PATIENCE, faults, picture, settled
from tests.project.served import Demo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202eevil"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site") / "site.sqlite3"


@pytest.fixture(scope="module")
def demo(database: Path) -> Iterator[Demo]:
    with Demo(database) as served:
        yield served


class Person:
    """Somebody at a browser of their own; complaints of a page (CSP, script errors) fail the test."""

    def __init__(self, browser: Any, demo: Demo, scheme: str = "light", width: int = 1200, **options: Any) -> None:
        self.demo, self.scheme, self.width = demo, scheme, width
        size = {"width": width, "height": 800}
        self.context = browser.new_context(color_scheme=scheme, viewport=size, base_url=demo.address, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, said: Any) -> None:
        if said.type == "error" and "status of 404" not in said.text:
            self.complaints.append(said.text)

    def sign_in(self, name: str) -> None:
        self.page.goto("/sign-in/")
        self.page.get_by_label("Username").fill(name)
        self.page.get_by_label("Password").fill(self.demo.passwords[name])
        self.page.get_by_role("main").get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    def say(self, text: str) -> None:
        field = self.page.get_by_role("textbox", name="Message")
        field.fill(text)
        field.press("Enter")

    def looked_at(self, name: str) -> None:
        """axe finds nothing, nothing sticks out, the page complains of nothing."""
        page = self.page
        settled(page, "document.fonts.ready")
        assert not self.complaints, (name, self.complaints)
        assert not faults(page), name
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        picture(page, f"site-{name}-{self.scheme}-{self.width}")


@pytest.fixture
def person(chromium: Any, demo: Demo) -> Iterator[Callable[..., Person]]:
    made: list[Person] = []

    def come(name: str = "", **options: Any) -> Person:
        made.append(Person(chromium, demo, **options))
        if name:
            made[-1].sign_in(name)
        return made[-1]

    yield come
    complaints = [each.complaints for each in made]
    for each in made:
        each.context.close()
    assert not any(complaints), complaints


@pytest.fixture(params=[("light", 1200), ("dark", 1200), ("light", 360), ("dark", 360)], ids=lambda p: f"{p[0]}-{p[1]}")
def look(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(zip(("scheme", "width"), request.param, strict=True))


def test_every_page_is_fit_to_be_seen(person: Callable[..., Person], look: dict[str, Any]) -> None:
    nobody = person(**look)
    nobody.page.goto("/")
    nobody.page.get_by_role("textbox", name="Message").wait_for()
    nobody.looked_at("chat-empty")
    nobody.page.goto("/conversations/")
    nobody.looked_at("conversations-empty")
    nobody.page.goto("/sign-in/")
    nobody.looked_at("sign-in")
    nobody.page.get_by_label("Username").fill("nobody")
    nobody.page.get_by_label("Password").fill("wrong")
    nobody.page.get_by_role("main").get_by_role("button", name="Sign in").click()
    nobody.page.get_by_role("alert").wait_for()
    nobody.looked_at("sign-in-refused")
    visitor = person("demo-visitor", **look)
    visitor.page.goto("/conversations/")
    visitor.looked_at("conversations")
    visitor.page.goto("/conversations/demo-lamp/")
    visitor.page.get_by_text("were refunded").first.wait_for()
    visitor.looked_at("chat")
    staff = person("demo-staff", **look)
    staff.page.goto("/orders/")
    staff.looked_at("orders")


def test_c8_a_refund_from_a_visitors_words_to_the_staffs_yes(person: Callable[..., Person], database: Path) -> None:
    """The visitor has not signed in; the card waits; staff approve in a second browser; both pages go on by themselves,
    and the order is refunded once."""
    visitor, staff = person(), person("demo-staff")
    visitor.page.goto("/")
    visitor.say("I want a refund of 5 euros for A-1001.")
    visitor.page.get_by_text("waits for the staff").first.wait_for()
    visitor.looked_at("chat-waiting")
    staff.page.goto("/orders/")
    row = staff.page.get_by_role("row", name="A-1001")
    assert row.get_by_text("5.00 €").count() == 0
    approver = staff.context.new_page()
    approver.goto("/admin/criogen_threads/approval/")
    approver.locator("#result_list tbody tr", has_text="A-1001").get_by_role("link").first.click()
    approver.get_by_role("button", name="Approve").click()
    approver.get_by_text("Approved. The run goes on.").wait_for()
    visitor.page.get_by_text("5.00 euros of order A-1001 were refunded").first.wait_for()
    row.get_by_text("5.00 €", exact=True).wait_for()
    staff.looked_at("orders-changed")
    visitor.page.reload()
    visitor.page.get_by_text("5.00 euros of order A-1001 were refunded").first.wait_for()
    assert visitor.page.get_by_text("waits for the staff").count() == 0
    with closing(sqlite3.connect(database)) as rows:
        assert rows.execute("SELECT refunded FROM desk_order WHERE number = 'A-1001'").fetchone()[0] == 5


def test_what_a_visitor_said_comes_along_at_the_sign_in(person: Callable[..., Person]) -> None:
    one = person()
    one.page.goto("/")
    one.say("Where is order A-1004?")
    one.page.get_by_text("chess clock").first.wait_for()
    one.sign_in("demo-visitor")
    one.page.goto("/")
    one.page.get_by_text("chess clock").first.wait_for()
    one.page.get_by_role("link", name="Conversations").click()
    one.page.get_by_role("link", name="Where is order A-1004?").first.wait_for()
    one.page.get_by_role("button", name="Sign out").click()
    one.page.get_by_role("link", name="Sign in").wait_for()
    one.page.goto("/conversations/")
    one.page.get_by_text("There are none yet.").wait_for()


def test_f55_words_of_others_are_words(person: Callable[..., Person]) -> None:
    one = person("demo-visitor")
    one.page.get_by_role("button", name="New conversation").click()
    one.page.get_by_role("textbox", name="Message").wait_for()
    one.say(HOSTILE)
    one.page.get_by_text("I am not sure what you mean.").first.wait_for()
    one.page.goto("/conversations/")
    one.page.get_by_role("link", name="<img src=x").first.wait_for()
    assert "owned" not in one.page.title()
    assert one.page.locator("main img").count() == 0
    one.looked_at("conversations-hostile")
    one.page.get_by_role("link", name="<img src=x").first.click()
    one.page.get_by_text("I am not sure what you mean.").first.wait_for()
    assert "owned" not in one.page.title()


def test_the_site_asks_no_foreign_host(person: Callable[..., Person], demo: Demo) -> None:
    one = person()
    asked: list[str] = []
    one.page.on("request", lambda request: asked.append(request.url))
    one.page.goto("/")
    one.page.get_by_role("textbox", name="Message").wait_for()
    one.page.goto("/sign-in/")
    assert asked
    assert all(url.startswith((demo.address, "data:")) for url in asked), asked


def test_the_site_works_with_the_keyboard_alone(person: Callable[..., Person]) -> None:
    one = person()
    one.page.goto("/")
    one.page.get_by_role("textbox", name="Message").wait_for()
    one.page.keyboard.press("Tab")
    assert one.page.evaluate("document.activeElement.className") == "skip"
    one.page.keyboard.press("Enter")
    for _ in range(30):
        one.page.keyboard.press("Tab")
        if one.page.evaluate("document.activeElement?.shadowRoot?.activeElement?.tagName") == "TEXTAREA":
            break
    one.page.keyboard.type("Where is order A-1003?")
    one.page.keyboard.press("Enter")
    one.page.get_by_text("set of notebooks").first.wait_for()


GERMAN = {"Accept-Language": "de"}


def test_in_german_every_page_is_fit_to_be_seen(person: Callable[..., Person], look: dict[str, Any]) -> None:
    one = person("demo-visitor", **look)
    one.context.set_extra_http_headers(GERMAN)
    one.page.goto("/conversations/demo-lamp/")
    one.page.get_by_role("heading", name="Wie können wir helfen?").wait_for()
    one.looked_at("german-chat")
    one.page.get_by_role("link", name="Gespräche").click()
    one.page.get_by_text("wartet auf eine Freigabe").first.wait_for()
    one.looked_at("german-conversations")
    one.page.get_by_role("button", name="Abmelden").click()
    one.page.get_by_role("link", name="Anmelden").click()
    one.looked_at("german-sign-in")


def test_what_is_suggested_in_german_is_understood(person: Callable[..., Person]) -> None:
    """The script understands it; it speaks English only."""
    one = person("demo-visitor")
    one.context.set_extra_http_headers(GERMAN)
    one.page.goto("/")
    suggested = {
        "Bitte rufen Sie mich zurück.": "On which number shall we call",
        "Wo ist die Bestellung A-1001?": "Order A-1001",
        "Ich möchte eine Erstattung für A-1002.": "I ask for",
    }
    for question, answer in suggested.items():
        one.page.get_by_role("button", name="Neues Gespräch").click()
        one.page.get_by_role("button", name=question).click()
        one.page.get_by_text(answer).first.wait_for()


def test_f60_in_arabic_the_pages_stand_the_other_way_round(person: Callable[..., Person], look: dict[str, Any]) -> None:
    one = person(locale="ar", **look)
    one.page.goto("/")
    one.page.get_by_role("textbox").wait_for()
    assert one.page.evaluate("document.documentElement.dir") == "rtl"
    brand, sign_in = (one.page.locator(part).bounding_box()["x"] for part in (".brand", ".who"))
    assert brand > sign_in
    one.looked_at("arabic-chat")
    one.page.goto("/conversations/")
    one.looked_at("arabic-conversations")
    staff = person("demo-staff", **look)
    staff.context.set_extra_http_headers({"Accept-Language": "ar"})
    staff.page.goto("/orders/")
    staff.looked_at("arabic-orders")
