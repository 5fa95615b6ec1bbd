"""Browsers for the tests: Debian's chromium, driven by Playwright.

Skipped, aloud, where one of the two is missing. Playwright waits without an end for much of what it is asked (a promise
of the page, a new page, the end of a browser), so every phase of a test with a browser is bounded as a whole: what
hangs is a failure that names its test and its line.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
PATIENCE = 20_000  # milliseconds, for what is looked for on a page
PROMISED = 45_000  # milliseconds, for a promise of a page
BOUND = 120.0  # seconds, for a phase of a test
AGAIN = 20.0  # seconds, for what such a failure leaves to close


@contextmanager
def launched() -> Iterator[Any]:
    """A browser, until the block ends."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=60_000)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for a module: while it is there its event loop is this thread's, and ``asyncio.run`` fails."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: no browser tests")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: no browser tests")
    with launched() as browser, pytest.MonkeyPatch.context() as patched:
        patched.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield browser


@contextmanager
def bounded(item: pytest.Item, seconds: float = BOUND) -> Iterator[None]:
    """Let this phase of a test with a browser fail when it takes longer, wherever it waits then."""
    if "chromium" not in getattr(item, "fixturenames", ()):
        yield
        return

    def fail(*_: object) -> None:
        pytest.fail(f"{item.name} waits for what does not come: more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, fail)
    outer = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *outer)


def aside(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call it in another thread: the one of the tests has Playwright's event loop."""

    def work() -> Any:
        try:
            return function(*args, **options)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def settled(page: Any, script: str, argument: Any = None) -> Any:
    """What the promise of this expression (or of this function of the argument) comes to, within a bound."""
    race = f"""argument => {{
        const made = ({script});
        const late = new Promise((_, refuse) => setTimeout(
            () => refuse(new Error("the promise did not settle")), {PROMISED}));
        return Promise.race([typeof made === "function" ? made(argument) : made, late]);
    }}"""
    return page.evaluate(race, argument)


def faults(page: Any) -> list[Any]:
    """What axe finds wrong with the page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed: no browser tests")
    options = {"resultTypes": ["violations"], "preload": False}  # it would copy style sheets into the page, inline
    found = axe.Axe().run(page, options=options).response["violations"]
    return [(each["id"], [(node["html"][:150], node["failureSummary"]) for node in each["nodes"]]) for each in found]


def picture(page: Any, name: str, **options: Any) -> None:
    """A picture for those who want one: ``SCREENSHOTS`` names a folder."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), **options)
