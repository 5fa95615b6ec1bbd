"""What the tests of backends share: requests, recordings in the stored format, and servers."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.backends.base import ModelAnswer, ModelRequest, TextDelta
from criogen_threads.backends.pydantic_ai import PydanticAIBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from criogen_threads.backends.base import Delta, ModelBackend

REPLAY = Path(__file__).resolve().parents[2].parent / "shared" / "replay"
needs_replay = pytest.mark.skipif(
    not (REPLAY / "server.py").exists(), reason="the recordings of ../shared are not beside this checkout"
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"tool_call": {"id": call_id, "name": name, "arguments": arguments}}


def result(call_id: str, name: str, content: Any, is_error: bool = False) -> dict[str, Any]:
    fields = {"id": call_id, "name": name, "content": content, "is_error": is_error}
    return {"role": "tool", "content": [{"tool_result": fields}]}


def asking(*messages: dict[str, Any], **fields: Any) -> ModelRequest:
    return ModelRequest(fields.pop("instructions", ""), messages or (user("Hello"),), **fields)


async def collect(backend: ModelBackend, request: ModelRequest) -> tuple[list[Delta], ModelAnswer]:
    """Every delta, and the answer that came last, once."""
    items = [item async for item in backend.stream(request)]
    answers = [item for item in items if isinstance(item, ModelAnswer)]
    assert len(answers) == 1
    assert items[-1] is answers[0]
    return items[:-1], answers[0]  # type: ignore[return-value]


def ask(backend: ModelBackend, request: ModelRequest) -> tuple[list[Delta], ModelAnswer]:
    return asyncio.run(collect(backend, request))


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def chat_backend(url: str, model: str = "m", **options: Any) -> PydanticAIBackend:
    """A backend on the OpenAI client, which does not retry."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def build() -> OpenAIChatModel:
        return OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="x"), settings={"max_retries": 0})

    return PydanticAIBackend(build, **options)


# The server of the recordings -------------------------------------------------------------------------------


def replay_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("criogen_replay_server", REPLAY / "server.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Replay:
    """A replay server on a free port, and its counts."""

    def __init__(self) -> None:
        self._module = replay_module()
        self._server = self._module.serve()
        self.state = self._server.RequestHandlerClass.state
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Replay:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def recordings(self) -> list[Any]:
        return self._module.rec.load_all()  # type: ignore[no-any-return]

    def fault(self, recording: str, position: int, kind: str, seconds: float = 30) -> None:
        self.state.faults[(recording, position)] = {"kind": kind, "times": 1, "seconds": seconds}


def stored(message: dict[str, Any]) -> dict[str, Any]:
    """A message of a recording in the stored format."""
    if message["role"] == "tool":
        return result(message["tool_call_id"], message["name"], message["content"])
    blocks: list[dict[str, Any]] = [{"text": message["content"]}] if message["content"] else []
    blocks += [call(each["id"], each["name"], each["arguments"]) for each in message.get("tool_calls", ())]
    return {"role": message["role"], "content": blocks}


# A server that says what a test wants -----------------------------------------------------------------------


class Wire:
    """One request at the server: what was asked, and the way to answer."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        self.handler, self.body = handler, body

    def start(self) -> None:
        self.handler.send_response(200)
        self.handler.send_header("content-type", "text/event-stream")
        self.handler.send_header("transfer-encoding", "chunked")
        self.handler.end_headers()

    def raw(self, data: bytes) -> None:
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.handler.wfile.flush()

    def delta(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> None:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
        self.raw(b"data: " + json.dumps({**event, **more}).encode() + b"\n\n")

    def text(self, *pieces: str) -> None:
        for piece in pieces:
            self.delta({"role": "assistant", "content": piece})

    def tool_call(self, index: int, call_id: str, name: str, *arguments: str) -> None:
        head = {
            "index": index,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        self.delta({"tool_calls": [head]})
        for piece in arguments:
            self.delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def end(self, finish: str | None = "stop") -> None:
        if finish:
            self.delta({}, finish)
        self.raw(b"data: [DONE]\n\n")
        self.handler.wfile.write(b"0\r\n\r\n")

    def refuse(self, status: int, body: dict[str, Any] | None = None, **headers: str) -> None:
        raw = json.dumps(body or {}).encode()
        self.handler.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.send_header("content-length", str(len(raw)))
        self.handler.end_headers()
        self.handler.wfile.write(raw)

    def wait_for_close(self, seconds: float = 10) -> bool:
        """Whether the client closed the connection."""
        self.handler.connection.settimeout(seconds)
        try:
            return self.handler.connection.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


class Server:
    """A chat-completions server on a free port that answers each request with a function."""

    def __init__(self, answer: Callable[[Wire], None]) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.addresses: list[Any] = []
        self.closed = threading.Semaphore(0)  # one for each connection that has ended
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def finish(self) -> None:
                super().finish()
                outer.closed.release()

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                outer.bodies.append(json.loads(self.rfile.read(length)))
                outer.addresses.append(self.client_address)
                try:
                    answer(Wire(self, outer.bodies[-1]))
                except OSError:
                    self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"


@contextmanager
def serving(answer: Callable[[Wire], None]) -> Iterator[Server]:
    server = Server(answer)
    thread = threading.Thread(target=server._server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server._server.shutdown()
        thread.join()
        server._server.server_close()


def plain(wire: Wire) -> None:
    """The usual answer."""
    wire.start()
    wire.text("Hel", "lo")
    wire.end()


async def first_delta_then(backend: ModelBackend, request: ModelRequest) -> None:
    """Read one delta and leave."""
    async with aclosing(backend.stream(request)) as stream:  # type: ignore[type-var]
        await anext(stream)
