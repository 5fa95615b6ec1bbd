"""``manage.py criogen_recover`` in a process of its own, which knows the agent of the tests.

``python -m tests.engine.recovering LEDGER [ARGUMENT …]``; it begins when it reads a line.
"""

from __future__ import annotations

import os
import sys

import django

django.setup()

from django.core.management import call_command  # noqa: E402

from criogen_threads.agents import Agent, register, tool  # noqa: E402
from criogen_threads.backends.scripted import ScriptedModel  # noqa: E402


def working(path: str) -> Agent:
    """An agent whose tool writes down that it ran."""

    @tool
    def work() -> str:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b"worked\n")
        os.close(file)
        return "worked"

    return Agent("helper", model=ScriptedModel.of([{"tool_call": {"name": "work"}}], "done"), tools=[work])


if __name__ == "__main__":
    register(working(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    call_command("criogen_recover", *sys.argv[2:])
