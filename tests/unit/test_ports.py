"""Ports of tests (tests/ports.py): each to one test, whatever runs beside it."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from pathlib import Path

import ports
import pytest

FEW = 40
ALL_OF_THEM = """
import sys, ports
ports.choice = lambda: [*map(int, sys.argv[1:])]
try:
    while True:
        print(ports.free_port(), flush=True)
except OSError:
    print("none", flush=True)
sys.stdin.read()
"""


def test_two_processes_never_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few ports, so that both want the same ones; each goes on until there is none, and has them until it ends."""
    few = random.sample(ports.choice(), FEW)
    command, env = [sys.executable, "-c", ALL_OF_THEM, *map(str, few)], {"PYTHONPATH": str(Path(ports.__file__).parent)}
    both = [subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    try:
        got = [int(line) for each in both for line in iter(each.stdout.readline, "none\n")]  # type: ignore[union-attr]
        assert sorted(set(got)) == sorted(got)
        assert len(got) > FEW // 2, "others have some at most"
        monkeypatch.setattr(ports, "choice", lambda: got)
        with pytest.raises(OSError, match="is free"):
            ports.free_port()
    finally:
        for each in both:
            each.communicate(timeout=60)
    assert ports.free_port() in got, "who ends has none"


def test_where_somebody_listens_is_no_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(ports, "choice", lambda: [server.getsockname()[1]])
        with pytest.raises(OSError, match="is free"):
            ports.free_port()


@pytest.mark.parametrize(
    ("given", "lowest", "highest"),
    [("32768\t60999\n", 10_000, 19_999), ("15000 60999", 10_000, 14_999), ("1024 65535", 10_000, 19_999)],
)
def test_what_the_kernel_gives_to_anybody_is_left_out(
    given: str, lowest: int, highest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "range").write_text(given)
    monkeypatch.setattr(ports, "GIVEN", tmp_path / "range")
    assert (min(ports.choice()), max(ports.choice())) == (lowest, highest)
