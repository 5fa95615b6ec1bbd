"""``manage.py demo``: the whole site under daphne, from nothing."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from websockets.sync.client import connect

from tests.processes import ROOT
from tests.project.served import Demo
from tests.project.terminal import PATIENCE, environment

if TYPE_CHECKING:
    from pathlib import Path


class Browser:
    """Cookies, pages and forms, without a browser."""

    def __init__(self, demo: Demo) -> None:
        self.demo = demo
        self.cookies: dict[str, str] = {}

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def ask(self, method: str, path: str, body: str = "", kind: str = "application/x-www-form-urlencoded") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.demo.port, timeout=PATIENCE)
        headers = {"Cookie": self.cookie, "Content-Type": kind, "X-CSRFToken": self.cookies.get("csrftoken", "")}
        connection.request(method, path, body.encode(), headers)
        answer = connection.getresponse()
        for header in answer.headers.get_all("Set-Cookie", ()):
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies[name] = value
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def page(self, path: str) -> str:
        status, text = self.ask("GET", path)
        assert status == 200, (path, status, text[:500])
        return str(text)

    def sign_in(self, name: str) -> None:
        self.page("/sign-in/")
        status, text = self.ask("POST", "/sign-in/", f"username={name}&password={self.demo.passwords[name]}")
        assert status == 302, text[:500]

    def configuration(self, path: str = "/") -> dict[str, Any]:
        """What the page tells the chat."""
        found = re.search(r'<script id="criogen-chat-[^"]+"[^>]*>(.*?)</script>', self.page(path), re.DOTALL)
        assert found is not None
        config: dict[str, Any] = json.loads(found[1])
        return config


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Demo(tmp_path_factory.mktemp("demo") / "new.sqlite3") as served:
        yield served


def test_it_prints_one_address_and_two_passwords(demo: Demo) -> None:
    assert demo.said.count(f"{demo.address}/") == 1
    assert set(demo.passwords) == {"demo-visitor", "demo-staff"}
    assert "Traceback" not in demo.said


def test_there_is_something_to_look_at(demo: Demo) -> None:
    visitor, staff = Browser(demo), Browser(demo)
    visitor.sign_in("demo-visitor")
    conversations = visitor.page("/conversations/")
    assert conversations.count('href="/conversations/') > 3
    assert "waits for an approval" in conversations
    staff.sign_in("demo-staff")
    assert "2 approvals wait for you" in staff.page("/orders/")
    assert "refund" in staff.page("/admin/criogen_threads/approval/")
    assert "demo-lamp" in staff.page("/admin/criogen_threads/thread/")


def test_static_files_are_served(demo: Demo) -> None:
    browser = Browser(demo)
    paths = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', browser.page("/") + browser.page("/sign-in/")))
    paths |= {browser.configuration()["stylesheet"], "/static/admin/css/base.css"}
    assert len(paths) >= 4
    for path in paths:
        assert browser.page(path)


def test_c8_a_visitor_who_has_not_signed_in_talks_over_the_websocket(demo: Demo) -> None:
    browser = Browser(demo)
    config = browser.configuration()
    url = f"ws://127.0.0.1:{demo.port}{config['socket']}{config['thread']}/"
    with connect(url, additional_headers={"Cookie": browser.cookie}, origin=demo.address) as socket:
        for frame in (
            {"type": "hello", "ticket": config["ticket"]},
            {"type": "subscribe", "epoch": None, "after": 0},
            {"type": "send", "text": "Where is order A-1001?", "client_id": "1"},
        ):
            socket.send(json.dumps(frame))
        heard = ""
        while "RUN_FINISHED" not in heard:
            heard += socket.recv(timeout=PATIENCE)  # type: ignore[operator]
    assert "kettle for 39.90 euros" in browser.page(f"/api/threads/{config['thread']}/messages/")
    assert "Where is order A-1001?" in browser.page("/conversations/")


def test_ctrl_c_stops_it_and_a_second_start_keeps_what_was_said(tmp_path: Path) -> None:
    file = tmp_path / "twice.sqlite3"
    with Demo(file) as first:
        passwords = first.passwords
        assert first.stop() == 0
        assert first.said.rstrip().endswith("Stopped.")
        assert "Traceback" not in first.said
    with Demo(file) as second:
        assert second.passwords != passwords
        browser = Browser(second)
        browser.sign_in("demo-visitor")
        assert browser.page("/conversations/").count("demo-notebooks") == 1


def test_p16_a_site_that_was_killed_goes_on_in_the_middle_of_the_turn(tmp_path: Path) -> None:
    """As the README has it. Nobody has signed in: the session outlives the process, and so does the conversation."""
    file = tmp_path / "killed.sqlite3"
    with Demo(file, DESK_DELAY="300") as first:
        browser = Browser(first)
        config = browser.configuration()
        said = json.dumps({"text": "Where is order A-1001?", "ticket": config["ticket"], "agent": "desk"})
        thread = f"/api/threads/{config['thread']}"
        assert browser.ask("POST", f"{thread}/runs/", said, "application/json")[0] == 202
        while "tool_start" not in browser.ask("GET", f"{thread}/events/")[1]:
            time.sleep(0.05)
        first.kill()
    with Demo(file) as second:
        browser.demo = second
        while json.loads(browser.page(f"{thread}/"))["status"] != "interrupted":
            time.sleep(0.1)
        status, run = browser.ask("POST", f"{thread}/retry/?wait=30", "{}", "application/json")
        assert (status, json.loads(run)["status"]) == (200, "completed"), run
        assert browser.page(f"{thread}/messages/").count("kettle for 39.90 euros") == 1


def test_what_cannot_be_is_said_in_one_line(demo: Demo, tmp_path: Path) -> None:
    for extra, options, words in (
        ({}, ["--port", str(demo.port)], "cannot be used"),
        ({"SECRET_KEY": "x", "DEBUG": "0"}, [], "runs with DEBUG=1 only"),
    ):
        done = subprocess.run(
            [sys.executable, "manage.py", "demo", *options], cwd=ROOT, text=True, capture_output=True,
            env=environment(tmp_path / "none.sqlite3", **extra), stdin=subprocess.DEVNULL, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr
