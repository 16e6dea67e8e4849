"""Times of hosts whose clock is not ours, brought to ours as the journal is written.

See docs/reference/contracts.md, Journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from harness.hosts import Host
from harness.hosts.clock import Offset, offset
from harness.hosts.parallel import all_of

TIMES = ("t_ns", "start_ns", "end_ns", "stall_began_ns", "net_stall_began_ns")
"""0 is none of them: of a stall, that there was none."""


def measure(hosts: Mapping[str, Host], samplers: Mapping[str, str]) -> dict[str, Offset]:
    """How far each host's clock is from ours; only of hosts in `samplers`. InfraError naming all that did not tell."""
    return all_of({name: partial(offset, hosts[name], program) for name, program in samplers.items()})


def ours(line: dict[str, Any], clock: Offset | None) -> dict[str, Any]:
    """A line that a host printed, with its times on our clock."""
    if clock is None:
        return line
    given = {name: line[name] for name in TIMES if isinstance(line.get(name), int) and line[name]}
    return {**line, **{name: time_ns - clock.offset_ns for name, time_ns in given.items()}}


def as_json(clocks: Mapping[str, Offset]) -> dict[str, dict[str, int]]:
    return {name: {"offset_ns": clock.offset_ns, "error_ns": clock.error_ns} for name, clock in clocks.items()}
