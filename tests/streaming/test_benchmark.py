"""The benchmark of the feed runs and measures what it says; its timings are nobody's test."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from benchmarks.listener import _first_frame
from benchmarks.stream import ALONE, FEW, TOGETHER
from tests.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(connection.vendor != "postgresql", reason="the benchmark is PostgreSQL's")
def test_a_small_run_hears_every_piece_on_every_socket(tmp_path: Path) -> None:
    file = tmp_path / "stream.json"
    command = [sys.executable, "-m", "benchmarks.stream", "--sockets=4", "--turns=2", "--pieces=12", f"--json={file}"]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(file.read_text())["figures"]
    for phase in (ALONE, TOGETHER):
        assert figures["sockets without the whole text"][phase] == 0
        assert figures["first token, median ms"][phase] > 0
        assert figures["a piece, median ms"][phase] >= figures["the newest piece of a frame, median ms"][phase] > 0
    assert FEW * 4 / 2 < figures["frames with text"][ALONE] <= FEW * 4
    assert "a piece, p95 ms, all turns at once" in ended.stdout


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_frames_are_told_apart_wherever_the_bytes_are_cut(size: int) -> None:
    mark, width = (size, 0) if size < 126 else (126, 2) if size < 65_536 else (127, 8)
    data = bytes([0x81, mark]) + (size.to_bytes(width, "big") if width else b"") + b"x" * size
    for cut in range(min(len(data), 12)):
        assert _first_frame(data[:cut]) is None
    assert _first_frame(data[:-1]) is None
    assert _first_frame(data + b"\x89\x00") == (0x81, b"x" * size, b"\x89\x00")
