"""A backend on several event loops: one after the other, at once, and left behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from criogen_threads.backends import resolve
from criogen_threads.backends.pydantic_ai import PydanticAIBackend
from tests.backends.support import Server, Wire, ask, asking, chat_backend, collect, plain, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from criogen_threads.backends.base import ModelBackend

HELLO = [{"text": "Hello"}]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(plain) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        yield running
    gc.collect()  # what was left open would warn now, and a warning is an error


@pytest.fixture
def backend(server: Server) -> ModelBackend:
    return resolve("openai-chat:m")


async def hello(backend: ModelBackend) -> None:
    assert (await collect(backend, asking()))[1].content == HELLO


def test_one_loop_after_the_other(server: Server, backend: ModelBackend) -> None:
    for _ in range(3):
        asyncio.run(hello(backend))
        gc.collect()
    assert len(server.bodies) == 3


def test_several_loops_at_once(server: Server, backend: ModelBackend) -> None:
    together = threading.Barrier(4)

    async def often() -> None:
        await hello(backend)
        await asyncio.to_thread(together.wait, 10)
        for _ in range(3):
            await hello(backend)

    with ThreadPoolExecutor(4) as threads:
        for running in [threads.submit(asyncio.run, often()) for _ in range(4)]:
            running.result(30)
    assert len(server.bodies) == 16


def test_a_loop_keeps_its_connection_between_requests(server: Server, backend: ModelBackend) -> None:
    async def twice() -> None:
        await hello(backend)
        await hello(backend)

    asyncio.run(twice())
    assert len(set(server.addresses)) == 1


def test_requests_that_come_at_once_share_the_loops_model(server: Server) -> None:
    built: list[int] = []
    chat = chat_backend(server.url)

    def build() -> object:
        built.append(1)
        return chat._build()

    backend = PydanticAIBackend(build)  # type: ignore[arg-type]

    async def at_once() -> None:
        await asyncio.gather(*(hello(backend) for _ in range(5)))

    asyncio.run(at_once())
    assert len(built) == 1


def test_nothing_is_kept_of_a_loop_that_was_shut_down(server: Server, backend: ModelBackend) -> None:
    asyncio.run(hello(backend))
    assert backend._models._entries == {}  # type: ignore[attr-defined]


def test_a_loop_that_was_closed_without_its_generators_is_forgotten_by_the_next(server: Server) -> None:
    from pydantic_ai.models.test import TestModel

    backend = PydanticAIBackend(lambda: TestModel(custom_output_text="Hello"))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(hello(backend))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert list(backend._models._entries) == [loop]
    asyncio.run(hello(backend))
    assert backend._models._entries == {}


def test_backends_that_are_dropped_close_their_clients(server: Server) -> None:
    async def use_and_drop() -> None:
        for _ in range(10):
            await hello(resolve("openai-chat:m"))
        gc.collect()
        for _ in range(10):
            assert await asyncio.to_thread(server.closed.acquire, timeout=5)

    asyncio.run(use_and_drop())


def test_a_model_object_on_one_loop_after_the_other(server: Server) -> None:
    from pydantic_ai.models import infer_model

    backend = resolve(infer_model("openai-chat:m"))
    for _ in range(2):
        asyncio.run(hello(backend))
        gc.collect()
    assert len(server.bodies) == 2


def test_a_model_string_leaves_the_retries_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(wire: Wire) -> None:
        wire.refuse(500)

    with serving(down) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        with pytest.raises(Exception, match="openai-chat:m answered with HTTP 500"):
            ask(resolve("openai-chat:m"), asking())
    assert len(server.bodies) == 1
