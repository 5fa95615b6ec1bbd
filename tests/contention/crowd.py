"""Several processes that begin at once."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.processes import spawn

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence


@contextmanager
def crowd(*roles: Sequence[Any]) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of ``tests.contention.child``, all ready; killed at the end."""
    children = [spawn("tests.contention.child", *map(str, role), stderr=None) for role in roles]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


def begin(*children: subprocess.Popen[str]) -> None:
    """Tell processes to begin."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()


def outcomes(children: Sequence[subprocess.Popen[str]], timeout: float = 120) -> dict[str, tuple[Any, ...]]:
    """What came of everything that the processes did, by what it was."""
    found: dict[str, tuple[Any, ...]] = {}
    for child in children:
        output, _ = child.communicate(timeout=timeout)
        assert child.returncode == 0, output
        for line in output.splitlines():
            what, *outcome = json.loads(line)
            assert what not in found
            found[what] = tuple(outcome)
    return found


def one_at_a_time(lines: Sequence[str]) -> list[str]:
    """The texts that the models were busy with, in order; each ended before the next began."""
    assert [line.split()[0] for line in lines] == ["begin", "end"] * (len(lines) // 2)
    begun, ended = ([line.split()[1] for line in lines[start::2]] for start in (0, 1))
    assert begun == ended
    return begun
