"""A lab that is up: its hosts, its switch, its NICs; and how labs are brought up, found and taken down."""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.files.writing import write_whole
from harness.lab import state
from harness.lab.host import NamespaceHost
from harness.lab.launch import DOWN_TIMEOUT_S, Up, end_keeper, start_keeper
from harness.lab.places import FILE as PLACES
from harness.lab.places import places
from harness.lab.plan import SWITCH, Plan, describe, plan_from_json, too_many_neighbours
from harness.schemas import dumped
from harness.schemas.form import Count

if TYPE_CHECKING:
    from harness.lab.topology import Topology

UP_TIMEOUT_S = 30.0
NEIGHBOURS = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
_serial = itertools.count()


@dataclass(frozen=True)
class Nic:
    """One data NIC. `switch_port` is its far end on host `switch`, where cables are cut; `rail` is the NIC's index."""

    host: str
    name: str
    rail: Count
    address: str
    rate_gbit: float
    switch_port: str


@dataclass(frozen=True)
class Lab(Up):
    """A running lab. One from `up` without a time to live dies with this process, however that ends."""

    name: str
    folder: Path
    plan: Plan
    hosts: dict[str, NamespaceHost]
    switch: NamespaceHost
    nics: list[Nic]
    warnings: list[str]
    keeper: subprocess.Popen[bytes] | None = None

    @classmethod
    def up(cls, topology: Topology, *, ttl_s: float | None = None, name: str | None = None) -> Lab:
        """Builds a lab. With `ttl_s` it belongs to nobody and lives that long; else it is ours and dies with us.

        Raises LabError with a remedy when the machine does not allow it, UsageError when the name is taken.
        """
        owner = os.getpid() if ttl_s is None else None
        label = name or f"run-{os.getpid()}-{next(_serial)}"
        task = {
            "name": label,
            "owner_pid": owner,
            "ttl_s": ttl_s,
            "topology": topology.model_dump(by_alias=True),
            "plan": asdict(describe(topology)),
        }
        told = dumped(places(topology), 1)
        keeper, answer = start_keeper("harness.lab.keeper", task, UP_TIMEOUT_S)
        try:
            write_whole(Path(answer["folder"]) / PLACES, told)
        except BaseException:
            end_keeper(keeper)
            raise
        if ttl_s is not None:
            keeper.returncode = 0  # it is nobody's child from now on: do not warn that it still runs
        return _lab(label, answer, describe(topology), keeper if ttl_s is None else None)

    @property
    def places_file(self) -> Path:
        """What the net library reads by R2CC_TOPO_FILE; every host of the lab sees it."""
        return self.folder / PLACES

    @classmethod
    def attach(cls, name: str) -> Lab:
        """A lab that some other process brought up. Raises UsageError when there is none of that name."""
        found = _find(name)
        return _lab(name, found, plan_from_json(found["plan"]), None)


def _find(name: str) -> dict[str, Any]:
    found = next((s for s in state.living() if s["name"] == name), None)
    if found is None:
        raise UsageError(f"no lab named '{name}' is up", "r2cc lab up, or r2cc lab status for those that are")
    return found


def down(name: str) -> bool:
    """Takes a lab down by name, whoever owns it; False when none of that name was up."""
    found = next((s for s in state.living() if s["name"] == name), None)
    if found is None:
        return False
    try:
        keeper = os.pidfd_open(found["keeper_pid"])
    except ProcessLookupError:
        return True
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(keeper, number)
            if select.select([keeper], [], [], DOWN_TIMEOUT_S)[0]:
                break
    finally:
        os.close(keeper)
    state.living()
    return True


def enter_command(name: str, host: str, argv: list[str]) -> list[str]:
    """The nsenter command line that runs `argv` on a host from a terminal, job control included."""
    found = _find(name)
    if host not in found["namespaces"]:
        raise UsageError(f"lab '{name}' has no host '{host}'", f"one of: {', '.join(found['namespaces'])}")
    proc = f"/proc/{found['init_pid']}"
    files = {kind: f"{proc}/fd/{fd}" for kind, fd in found["namespaces"][host].items()}
    user = [f"--user={proc}/ns/user", "--preserve-credentials"] if found["user_namespace"] else []
    options = [f"--net={files['net']}", f"--uts={files['uts']}", f"--mount={files['mnt']}", f"--pid={proc}/ns/pid"]
    return ["nsenter", *user, *options, "--", *argv]


def _lab(name: str, answer: dict[str, Any], plan: Plan, keeper: subprocess.Popen[bytes] | None) -> Lab:
    folder = Path(answer["folder"])
    nics = [
        Nic(c.host, c.nic, c.rail, c.address, c.shaping.rate_gbit, c.port)
        for c in plan.cables
        if c.rail is not None and c.shaping is not None
    ]
    hosts = {host: NamespaceHost(host, folder) for host in plan.hosts}
    warnings = [*answer["warnings"], *_crowded(plan)]
    return Lab(name, folder, plan, hosts, NamespaceHost(SWITCH, folder), nics, warnings, keeper)


def _crowded(plan: Plan) -> list[str]:
    try:
        return too_many_neighbours(plan, int(NEIGHBOURS.read_text()))
    except OSError:  # not said in a network other than the machine's first
        return []
