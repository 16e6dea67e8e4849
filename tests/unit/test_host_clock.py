"""How far a host's clock is from ours: the quickest of several answers, and hosts that give none."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from chaos.record.clocks import ours
from harness.errors import InfraError
from harness.hosts import LocalHost
from harness.hosts.clock import Offset, offset

TELLER = """#!/bin/sh
while dd bs=1 count=1 2>/dev/null | grep -q .; do echo '{"t_ns":5000000,"event":"clock"}'; done
"""


def _program(folder: Path, text: str) -> str:
    program = folder / "sampler"
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


def test_the_quickest_answer_counts(tmp_path: Path) -> None:
    # Asked and answered: once 100 apart, all others 1000 apart.
    readings = itertools.chain([0, 1000, 2000, 2100], itertools.cycle([3000, 4000]))
    found = offset(LocalHost(), _program(tmp_path, TELLER), now_ns=lambda: next(readings))
    assert found == Offset(5_000_000 - 2050, 50)


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\necho broken >&2; exit 1\n", "#!/bin/sh\ndd bs=1 count=1 2>&1; echo no number\n"]
)
def test_a_host_that_does_not_tell_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(InfraError, match="does not tell the time") as caught:
        offset(LocalHost("n7"), _program(tmp_path, text))
    assert caught.value.message.startswith("n7: ")


def test_all_times_of_a_line_are_brought_to_our_clock() -> None:
    line = {"event": "iteration", "t_ns": 100, "start_ns": 40, "end_ns": 90, "gaps_us": [7]}
    assert ours(line, Offset(30, 1)) == {**line, "t_ns": 70, "start_ns": 10, "end_ns": 60}
    assert ours(line, None) is line
