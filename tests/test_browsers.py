"""What hangs in a browser is a failure, and the browser lives on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests import browsers
from tests.browsers import bounded, settled

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVER = "new Promise(() => {})"


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    page = chromium.new_page()
    yield page
    page.close()


def test_a_promise_that_does_not_settle_is_refused(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsers, "PROMISED", 50)
    with pytest.raises(Exception, match="the promise did not settle"):
        settled(page, NEVER)
    with pytest.raises(Exception, match="the promise did not settle"):
        settled(page, f"async () => {NEVER}")


def test_a_promise_and_a_function_come_to_their_value(page: Any) -> None:
    assert settled(page, "Promise.resolve(1)") == 1
    assert settled(page, "async number => number + 1", 1) == 2
    assert settled(page, "number => ({number})", 3) == {"number": 3}


def test_a_call_without_an_end_fails_and_names_its_test(page: Any, request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"test_a_call_without_an_end.* waits"), bounded(request.node, 0.2):
        page.evaluate(NEVER)
    assert page.evaluate("1 + 1") == 2


def test_a_wait_outside_of_the_browser_fails_too(chromium: Any, request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"more than 0\.2 s"), bounded(request.node, 0.2):
        threading.Event().wait(60)
