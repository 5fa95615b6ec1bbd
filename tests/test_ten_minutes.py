"""The README's ten minutes, word for word: a new project outside the repository, and a chat that works.

Everything is read out of the README: the commands, and the files under the names that stand above them. The package
is the one of this checkout, and what answers for the provider is a server on this machine.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from websockets.sync.client import connect

from tests.backends.support import serving
from tests.processes import ROOT
from tests.streaming.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.backends.support import Wire

pytest.importorskip("pydantic_ai")

PATIENCE = 120
PASSWORD = "a kettle and a lamp"

README = (ROOT / "README.md").read_text()
TEN_MINUTES = README.partition("\n## Ten minutes to a chat in your own site\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEN_MINUTES, re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?:# |<!-- )([\w/.]+)(?: -->)?\n(.*)", re.DOTALL)
APPENDED = "settings.py"
"""The one file that the README adds to; the others are as it has them."""


def answer(wire: Wire) -> None:
    """The provider, which speaks the Responses API: it looks the order up, and says what it found."""
    last = wire.body["input"][-1]
    if last.get("type") == "function_call_output":
        text = f"Your {json.loads(last['output'])['item']} is shipped."
        content = {"type": "output_text", "text": text, "annotations": []}
        item = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [content]}
        pieces = [
            {"type": "response.output_text.delta", "delta": text, "item_id": "m1", "content_index": 0, "logprobs": []}
        ]
    else:
        called = {"call_id": "call-1", "name": "look_up_order", "arguments": '{"order": "A-1001"}'}
        item = {"id": "f1", "type": "function_call", "status": "completed", **called}
        pieces = [
            {"type": "response.function_call_arguments.delta", "delta": called["arguments"], "item_id": "f1"},
        ]
    empty = {**item, "arguments": ""} if "arguments" in item else {**item, "content": []}
    events = [
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.output_item.added", "item": {**empty, "status": "in_progress"}},
        *pieces,
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": _response("completed", [item])},
    ]
    wire.start()
    for number, event in enumerate(events):
        whole = json.dumps({"sequence_number": number, "output_index": 0, **event})
        wire.raw(f"event: {event['type']}\ndata: {whole}\n\n".encode())
    wire.handler.wfile.write(b"0\r\n\r\n")


def _response(status: str, output: list[Any]) -> dict[str, Any]:
    usage = {
        "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
    }  # fmt: skip
    return {
        "id": "r1", "object": "response", "created_at": 1, "model": "gpt-5-mini", "status": status, "output": output,
        "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
        "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1, "top_p": 1,
    }  # fmt: skip


class Site:
    """The folder of whoever follows the README."""

    def __init__(self, folder: Path, provider: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.cookies: dict[str, str] = {}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "DATABASE_"))}
        self.environment = {
            **kept, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": provider,
            "DJANGO_SUPERUSER_USERNAME": "ada", "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
            "DJANGO_SUPERUSER_EMAIL": "ada@example.com",
        }  # fmt: skip

    def follow(self) -> None:
        """Do what the README says, up to the server."""
        for kind, text in BLOCKS:
            if kind == "sh":
                for line in text.splitlines():
                    self.command(line)
            else:
                self.write(text)

    def command(self, line: str) -> None:
        if line.startswith(("pip install", "python manage.py runserver")):
            return  # it is installed; and the server is started where the test can end it
        if line.startswith("cd "):
            self.folder /= line.removeprefix("cd ")
            return
        parts = {"python": [sys.executable], "django-admin": [sys.executable, "-m", "django"]}
        program, *arguments = shlex.split(line)
        answers = ["--noinput"] if "createsuperuser" in line else []  # its questions are answered by the environment
        done = subprocess.run(
            [*parts[program], *arguments, *answers], cwd=self.folder, env=self.environment, capture_output=True,
            text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        assert "WARNING" not in done.stderr, (line, done.stderr)

    def write(self, text: str) -> None:
        named = NAMED.match(text)
        assert named is not None, text
        name, content = named.groups()
        path = self.folder / ("mysite/settings.py" if name == APPENDED else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if name == APPENDED else "") + content)

    @contextmanager
    def running(self) -> Iterator[None]:
        """``runserver``, which is daphne's."""
        command = [sys.executable, "manage.py", "runserver", "--noreload", str(self.port)]
        log = self.folder / "server.log"
        with log.open("w") as out:
            server = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                with suppress(OSError):
                    self.ask("GET", "/admin/login/")
                    break
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield
        finally:
            server.terminate()
            server.wait(PATIENCE)
        assert "Daphne" in log.read_text()
        assert "Traceback" not in log.read_text()

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def ask(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Cookie": self.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        headers["X-CSRFToken"] = self.cookies.get("csrftoken", "")
        try:
            connection.request(method, path, body.encode(), headers)
            answer = connection.getresponse()
            for header in answer.headers.get_all("Set-Cookie", ()):
                name, _, value = header.partition(";")[0].partition("=")
                self.cookies[name] = value
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def sign_in(self) -> None:
        status, _ = self.ask("POST", "/admin/login/?next=/chat/", f"username=ada&password={PASSWORD.replace(' ', '+')}")
        assert status == 302

    def configuration(self) -> dict[str, Any]:
        status, page = self.ask("GET", "/chat/")
        assert status == 200, page
        found = re.search(r'<script id="criogen-chat-[^"]+"[^>]*>(.*?)</script>', page, re.DOTALL)
        assert found is not None, page
        config: dict[str, Any] = json.loads(found[1])
        return config


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(answer) as provider:
        made = Site(tmp_path_factory.mktemp("elsewhere"), provider.url)
        made.follow()
        made.command("python manage.py check")
        order = "Order.objects.create(number='A-1001', customer='Ada', item='kettle', total=40, status='shipped')"
        made.command(f'python manage.py shell -c "from shop.models import Order; {order}"')
        with made.running():
            made.ask("GET", "/admin/login/")
            made.sign_in()
            yield made


def test_the_ten_minutes_are_read_out_of_the_readme() -> None:
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds.count("sh") >= 2
    names = {found[1] for kind, text in BLOCKS if kind != "sh" and (found := NAMED.match(text))}
    assert names == {
        "settings.py", "mysite/asgi.py", "mysite/urls.py", "shop/models.py", "shop/agents.py", "shop/views.py",
        "shop/templates/shop/chat.html",
    }  # fmt: skip


def test_c1_a_new_project_has_a_working_chat_over_the_websocket(site: Site) -> None:
    assert ROOT not in site.folder.parents
    config = site.configuration()
    assert site.ask("GET", config["stylesheet"])[0] == 200
    url = f"ws://127.0.0.1:{site.port}{config['socket']}{config['thread']}/"
    with connect(url, additional_headers={"Cookie": site.cookie}, origin=site.address) as socket:
        for frame in (
            {"type": "hello", "ticket": config["ticket"]},
            {"type": "subscribe", "epoch": None, "after": 0},
            {"type": "send", "text": "Where is order A-1001?", "client_id": "1"},
        ):
            socket.send(json.dumps(frame))
        heard = ""
        while "RUN_FINISHED" not in heard:
            heard += str(socket.recv(timeout=PATIENCE))
            assert "RUN_ERROR" not in heard, heard
    status, messages = site.ask("GET", f"{config['api']}threads/{config['thread']}/messages/")
    assert status == 200
    assert "Your kettle is shipped." in messages


def test_c7_the_console_is_there(site: Site) -> None:
    for path in ("/admin/", "/admin/criogen_threads/thread/", "/admin/criogen_threads/approval/"):
        assert site.ask("GET", path)[0] == 200


def test_c8_a_new_project_has_a_working_chat_in_a_browser(site: Site, chromium: Any) -> None:
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(f"{site.address}/chat/")
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    field = page.get_by_role("textbox", name="Message")
    field.fill("And where is it now?")
    field.press("Enter")
    page.locator(".user", has_text="And where is it now?").wait_for()
    page.locator(".user:has-text('And where is it now?') ~ *", has_text="Your kettle is shipped.").first.wait_for()
