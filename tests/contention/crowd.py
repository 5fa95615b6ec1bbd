"""Several processes that begin at once, forked from one that has everything loaded."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tests.processes import spawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

READY, ENDED = ["ready"], ["ended"]


class Member:
    """One process of a crowd: it hears orders by one pipe, and speaks by another.

    Args:
        orders: The end of a pipe that is written.
        words: The end of a pipe that is read.
    """

    pid = 0

    def __init__(self, orders: int, words: int) -> None:
        self._orders = os.fdopen(orders, "wb", buffering=0)
        self._words = os.fdopen(words, "rb", buffering=0)
        self._heard = b""
        self.gone = False

    def begin(self) -> None:
        self._orders.write(b"\n")

    def hear(self, deadline: float) -> list[Any] | None:
        """The next thing that it says; None when it is gone.

        Raises:
            AssertionError: It said nothing in time.
        """
        while b"\n" not in self._heard:
            readable, _, _ = select.select([self._words], [], [], max(0, deadline - time.monotonic()))
            assert readable, "it says nothing"
            piece = self._words.read(65536)
            if not piece:
                self.gone = True
                return None
            self._heard += piece
        line, self._heard = self._heard.split(b"\n", 1)
        return list(json.loads(line))

    def kill(self) -> None:
        """End it, and return when it is gone."""
        if not self.gone:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            while self.hear(time.monotonic() + 30) is not None:
                pass

    def close(self) -> None:
        self._orders.close()
        self._words.close()


@contextmanager
def crowd(*roles: Sequence[Any]) -> Iterator[list[Member]]:
    """Processes of ``tests.contention.child``, all ready; killed at the end."""
    with ExitStack() as stack:
        members, theirs = [], []
        for _ in roles:
            (heard, orders), (words, said) = os.pipe(), os.pipe()
            members.append(Member(orders, words))
            stack.callback(members[-1].close)
            theirs.append((heard, said))
        ends = [end for pair in theirs for end in pair]
        jobs = json.dumps([[*pair, *map(str, role)] for pair, role in zip(theirs, roles, strict=True)])
        mother = spawn("tests.contention.child", jobs, stderr=None, pass_fds=ends)
        stack.callback(mother.communicate)
        for end in ends:
            os.close(end)
        assert mother.stdout is not None
        for member in members:
            member.pid = int(mother.stdout.readline())
            stack.callback(member.kill)
        for member in members:
            assert member.hear(time.monotonic() + 60) == READY
        yield members


def begin(*members: Member) -> None:
    """Tell processes to begin."""
    for member in members:
        member.begin()


def outcomes(members: Sequence[Member], timeout: float = 240) -> dict[str, tuple[Any, ...]]:
    """What came of everything that the processes did, by what it was."""
    found: dict[str, tuple[Any, ...]] = {}
    deadline = time.monotonic() + timeout
    for member in members:
        while (said := member.hear(deadline)) != ENDED:
            assert said is not None, "it died"
            what, *outcome = said
            assert what not in found
            found[what] = tuple(outcome)
    return found


def one_at_a_time(lines: Sequence[str]) -> list[str]:
    """The texts that the models were busy with, in order; each ended before the next began."""
    assert [line.split()[0] for line in lines] == ["begin", "end"] * (len(lines) // 2)
    begun, ended = ([line.split()[1] for line in lines[start::2]] for start in (0, 1))
    assert begun == ended
    return begun
