"""A second process that takes a thread and holds it until its standard input says so.

``python -m tests.threads.child KEY TEXT``: prints ``reached`` when its model is asked, answers when it reads a
line, and prints the reply's text, or the code of what it was refused with.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import django

django.setup()

from criogen_threads.agents import Agent, register  # noqa: E402
from criogen_threads.backends.scripted import ScriptedModel  # noqa: E402
from criogen_threads.errors import CriogenError  # noqa: E402


async def respond(messages: Any, tools: Any) -> str:
    print("reached", flush=True)
    reading = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return f"child: {(await reading).strip()}"


async def main(key: str, text: str) -> None:
    agent = register(Agent("helper", model=ScriptedModel(respond)))
    try:
        reply = await agent.thread(key).send(text)
        print(reply.text, flush=True)
    except CriogenError as error:
        print(error.code, flush=True)
        sys.stdin.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
