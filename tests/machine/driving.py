"""A run whose tools hang goes on, is cancelled, dies with its process, or is left to a process that is paused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from criogen_threads import errors
from criogen_threads.engine import lease as leases
from criogen_threads.models import Thread, ToolCall, Worker
from tests.flush import stop_worker
from tests.machine.reference import CANCEL, DIE, GO_ON
from tests.machine.world import HANGING, Gate
from tests.support import in_db

if TYPE_CHECKING:
    from criogen_threads.threads import ThreadHandle
    from tests.machine.world import World


@dataclass
class Zombie:
    """A run of a process that was paused for too long: its tool still hangs."""

    task: asyncio.Task[Any]
    gate: Gate
    stale: bool = False  # another has taken the thread since


class Driver:
    """Runs calls of a handle to wherever they come to rest."""

    def __init__(self, chat: ThreadHandle, world: World) -> None:
        self.chat = chat
        self.world = world
        self.zombies: list[Zombie] = []

    async def drive(self, work: Any, way: str) -> Any:
        """What a call returns, the code of its error, or "zombie"."""
        gate = self.world.gate = Gate()
        if way == GO_ON:
            gate.open.set()
        task = asyncio.ensure_future(work)
        while not task.done():
            if way != GO_ON and gate.waiting and await in_db(self._only_hangs, gate):
                return await self._stop(task, gate, way)
            await asyncio.wait({task}, timeout=0.003)
        return _outcome(task)

    def _only_hangs(self, gate: Gate) -> bool:
        """Whether everything that could end has ended, and its end is saved."""
        thread = Thread.objects.get(key=self.chat.id)
        calls = ToolCall.objects.filter(thread=thread, run=thread.current_run_id, status__in=("ready", "running"))
        names = list(calls.values_list("name", flat=True))
        return len(names) == gate.waiting and set(names) <= set(HANGING)

    async def _stop(self, task: asyncio.Future[Any], gate: Gate, way: str) -> Any:
        if way == CANCEL:
            assert await self.chat.cancel() is True
        elif way == DIE:
            await in_db(stop_worker)
        else:
            await in_db(Worker.objects.filter(pk=leases.current().id).delete)
            leases.forget()
            self.zombies.append(Zombie(task, gate))  # type: ignore[arg-type]
            return "zombie"
        await asyncio.wait({task}, timeout=10)
        return _outcome(task)

    async def record(self, decisions: Any) -> None:
        await in_db(self.chat.record, decisions)

    def is_taken(self) -> None:
        """From now on the paused processes have lost their thread."""
        for zombie in self.zombies:
            zombie.stale = True

    def stale(self) -> bool:
        return any(zombie.stale for zombie in self.zombies)

    async def wake(self) -> None:
        """A paused process goes on, too late: what its tool returns stays out."""
        zombie = next(zombie for zombie in self.zombies if zombie.stale)
        self.zombies.remove(zombie)
        zombie.gate.open.set()
        await asyncio.wait({zombie.task}, timeout=10)
        assert _outcome(zombie.task) in ("lease_lost", True)  # True: a submitted run, whose error is logged

    async def end(self) -> None:
        for zombie in self.zombies:
            zombie.gate.open.set()
            await asyncio.wait({zombie.task}, timeout=10)
            _outcome(zombie.task)
        self.zombies.clear()


def _outcome(task: asyncio.Future[Any]) -> Any:
    try:
        return task.result()
    except errors.CriogenError as error:
        return error.code
