"""Visitors with browsers, and what they look at."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model

from tests.browsers import PATIENCE, aside, picture
from tests.streaming.puppet import puppet, wish
from tests.streaming.servers import log_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.streaming.servers import Web

_numbers = count(1)


def person(**values: Any) -> Any:
    """A user of the site, with the password "secret"."""
    values = {"password": "secret", **values}
    return aside(get_user_model().objects.create_user, f"visitor-{next(_numbers)}", **values)


class Visitor:
    """One person at one browser. What the page complains of (CSP, script errors) fails the test."""

    def __init__(
        self, browser: Any, site: Web, user: Any = None, *, tolerated: str = "", signed_in: bool = True, **context: Any
    ) -> None:
        self.site = site
        self.user = user or person()
        self.key = f"chat-{next(_numbers)}"
        self.context = browser.new_context(**{"viewport": {"width": 900, "height": 800}, **context})
        self.address = site.url("", "http")
        self.session = aside(log_in, self.user) if signed_in else ""
        if self.session:
            cookie = {"name": settings.SESSION_COOKIE_NAME, "value": self.session, "url": self.address}
            self.context.add_cookies([cookie])
        self.complaints: list[str] = []
        self.tolerated = tolerated
        self.page = self.tab()

    def tab(self) -> Any:
        """One more page in the same browser."""
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return page

    def _heard(self, said: Any) -> None:
        expected = self.tolerated and self.tolerated in said.text
        missing = "404 (Not Found)" in said.text and "/api/threads/" in said.location.get("url", "")  # not begun yet
        if said.type == "error" and not expected and not missing:
            self.complaints.append(said.text)

    def open(self, page: Any = None, key: str = "", **query: Any) -> Any:
        """The page with the chat, once it is ready."""
        page = page or self.page
        page.goto(f"{self.address}/chat/{key or self.key}/?{urlencode(query, doseq=True)}")
        page.locator("criogen-chat[ready]").wait_for(state="attached")
        return page

    def handle(self) -> Any:
        return puppet().thread(self.key, actor=self.user)

    def stored(self) -> list[dict[str, Any]]:
        """What the database has of the conversation."""
        return list(aside(self.handle().messages_sync))

    def picture(self, name: str, page: Any = None, **options: Any) -> None:
        picture(page or self.page, f"chat-{name}", **options)


def say(page: Any, text: str) -> None:
    """Write a message and send it."""
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send").click()


def answers(page: Any) -> Any:
    return page.locator(".message.assistant:not([hidden])")


def questions(page: Any) -> Any:
    return page.locator(".message.user:not([hidden])")


def conversation(page: Any) -> list[tuple[str, str]]:
    """What the page shows: who, and the text."""
    script = """() => [...document.querySelector("criogen-chat").shadowRoot.querySelectorAll(".message:not([hidden])")]
        .map((each) => [each.matches(".user") ? "user" : "assistant", each.querySelector(".body").textContent.trim()])
    """
    return [(role, text) for role, text in page.evaluate(script)]


def said(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The same of the stored messages."""
    texts = [(each["role"], "".join(block.get("text", "") for block in each["content"])) for each in messages]
    return [(role, text.strip()) for role, text in texts if role != "tool"]


def rested(page: Any) -> None:
    """No answer is under way."""
    page.get_by_role("button", name="Stop").wait_for(state="detached")


def pays(**arguments: Any) -> str:
    """A wish that needs its owner's approval."""
    asked = {"tool_call": {"name": "pay", "arguments": {"amount": 40, **arguments}}}
    return wish([{"text": "I can pay that."}, asked], "It is settled.")


def eventually(look: Callable[[], Any]) -> None:
    """Wait until it is so."""
    pause = threading.Event()
    for _ in range(600):
        if look():
            return
        pause.wait(0.025)
    raise AssertionError("it never was so")
