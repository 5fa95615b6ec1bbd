"""Who leaves a stream leaves the provider too: no token is asked for afterwards."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import pytest

from criogen_threads.backends.base import ModelAnswer, TextDelta
from tests.backends.support import Server, Wire, asking, chat_backend, collect, serving, text_of, user


class Endless:
    """Answers with text for as long as the client listens, or stalls after some; says when it has left."""

    def __init__(self, stall: bool) -> None:
        self.stall, self.left, self.sent = stall, threading.Event(), 0

    def __call__(self, wire: Wire) -> None:
        wire.start()
        wire.text("first")
        try:
            while not self.stall:
                wire.text("more")
                self.sent += 1
        except OSError:
            self.left.set()
            raise
        if wire.wait_for_close():
            self.left.set()


@pytest.mark.parametrize("stall", [True, False])
def test_f18_a_closed_iterator_closes_the_providers_stream(stall: bool) -> None:
    async def leave(server: Server, endless: Endless) -> None:
        async with aclosing(chat_backend(server.url).stream(asking())) as stream:  # type: ignore[type-var]
            assert await anext(stream) == TextDelta("first")
        assert await asyncio.to_thread(endless.left.wait, 5)

    endless = Endless(stall)
    with serving(endless) as server:
        asyncio.run(leave(server, endless))
    assert len(server.bodies) == 1


@pytest.mark.parametrize("stall", [True, False])
def test_f18_a_cancelled_task_closes_the_providers_stream(stall: bool) -> None:
    async def cancel(server: Server, endless: Endless) -> list[Any]:
        heard: list[Any] = []
        begun = asyncio.Event()

        async def listen() -> None:
            async for delta in backend.stream(asking()):
                heard.append(delta)
                begun.set()

        backend = chat_backend(server.url)
        task = asyncio.create_task(listen())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(endless.left.wait, 5)
        return heard

    endless = Endless(stall)
    with serving(endless) as server:
        heard = asyncio.run(cancel(server, endless))
    assert heard
    assert not any(isinstance(each, ModelAnswer) for each in heard)
    assert len(server.bodies) == 1


def test_a_request_cancelled_before_its_first_byte_is_closed_too() -> None:
    asked, left = threading.Event(), threading.Event()

    def silent(wire: Wire) -> None:
        asked.set()
        if wire.wait_for_close():
            left.set()

    async def cancel(server: Server) -> None:
        task = asyncio.create_task(collect(chat_backend(server.url), asking()))
        await asyncio.to_thread(asked.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(left.wait, 5)

    with serving(silent) as server:
        asyncio.run(cancel(server))


def test_two_requests_at_once_are_not_mixed() -> None:
    def echo(wire: Wire) -> None:
        wire.start()
        wire.text(*wire.body["messages"][-1]["content"])
        wire.end()

    async def both(server: Server) -> list[str]:
        backend = chat_backend(server.url)
        texts = [letter * 50 for letter in "abcdef"]
        answers = await asyncio.gather(*(collect(backend, asking(user(text))) for text in texts))
        assert [text_of(deltas) for deltas, _ in answers] == texts
        return [answer.content[0]["text"] for _, answer in answers]

    with serving(echo) as server:
        assert asyncio.run(both(server)) == [letter * 50 for letter in "abcdef"]
