"""A chain of three agents, the deepest of which needs a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from criogen_threads.agents import Agent, tool
from tests.agency.support import an_agency, ask, threads_of
from tests.support import Heard, call, in_db

if TYPE_CHECKING:
    from criogen_threads.threads import ThreadHandle


WAITS = [("top", "requires_action"), ("middle", "requires_action"), ("deep", "requires_action")]
DONE = [("top", "completed"), ("middle", "completed"), ("deep", "completed")]


class Chain:
    """top asks middle, middle asks deep, deep looks something up and pays."""

    def __init__(self, approval: Any = "owner", **options: Any) -> None:
        self.ran: list[str] = []

        @tool
        def look() -> str:
            self.ran.append("look")
            return "seen"

        @tool(approval=approval, **options)
        def pay(amount: int) -> str:
            self.ran.append(f"pay {amount}")
            return f"paid {amount}"

        agents = [
            Agent("top", model=Heard([ask("middle")], "top is done", "more")),
            Agent("middle", model=Heard([ask("deep")], "middle is done")),
            Agent("deep", model=Heard([call("look")], [call("pay", amount=5)], "deep is done"), tools=[look, pay]),
        ]
        delegates = {"top": ["middle"], "middle": ["deep"]}
        self.agency = an_agency(entry=agents[0], specialists=agents[1:], delegates=delegates)

    async def begin(self, actor: Any = None) -> ThreadHandle:
        chat = await self.agency.create_thread(thread_id="one", actor=actor)
        reply = await chat.send("go")
        assert reply.status == "suspended"
        return chat


async def handle_of(chain: Chain, depth: int) -> ThreadHandle:
    handle = await chain.agency.get_thread((await in_db(threads_of, "one"))[depth].key)
    assert handle is not None
    return handle
