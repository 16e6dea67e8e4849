"""A lab that is up: its hosts, its switch, its NICs; and how labs are brought up, found and taken down."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import harness
from harness.errors import LabError, UsageError
from harness.lab import state
from harness.lab.host import NamespaceHost
from harness.lab.plan import SWITCH, Plan, describe, plan_from_json, plan_to_json

if TYPE_CHECKING:
    from harness.lab.topology import Topology

UP_TIMEOUT_S = 30.0
DOWN_TIMEOUT_S = 5.0
_serial = itertools.count()


@dataclass(frozen=True)
class Nic:
    """One data NIC. `switch_port` is its far end on host `switch`, where cables are cut; `rail` is the NIC's index."""

    host: str
    name: str
    rail: int
    address: str
    rate_gbit: float
    switch_port: str


@dataclass(frozen=True)
class Lab:
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
            "plan": plan_to_json(describe(topology)),
        }
        keeper, answer = _start_keeper(task)
        if ttl_s is not None:
            keeper.returncode = 0  # it is nobody's child from now on: do not warn that it still runs
        return _lab(label, answer, describe(topology), keeper if ttl_s is None else None)

    @classmethod
    def attach(cls, name: str) -> Lab:
        """A lab that some other process brought up. Raises UsageError when there is none of that name."""
        found = _find(name)
        return _lab(name, found, plan_from_json(found["plan"]), None)

    def close(self) -> None:
        """Takes our own lab down and returns when nothing of it is left; a lab we only attached to stays up."""
        for host in (*self.hosts.values(), self.switch):
            host.close()
        if self.keeper is None:
            return
        _end(self.keeper)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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


def _start_keeper(task: dict[str, Any]) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    package = str(Path(harness.__file__).parent.parent)
    search = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile() as errors:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "harness.lab.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": search},
            start_new_session=True,
        )
        try:
            return keeper, _first_answer(keeper, task)
        except BaseException:
            _end(keeper)
            errors.seek(0)
            sys.stderr.write(errors.read().decode(errors="replace"))
            raise
        finally:
            assert keeper.stdin is not None and keeper.stdout is not None
            keeper.stdin.close()
            keeper.stdout.close()


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """Asks the keeper to take its lab down and waits; kills it when it does not answer, which ends the lab as well."""
    keeper.terminate()
    try:
        keeper.wait(DOWN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
        state.living()


def _first_answer(keeper: subprocess.Popen[bytes], task: dict[str, Any]) -> dict[str, Any]:
    assert keeper.stdin is not None and keeper.stdout is not None
    keeper.stdin.write(json.dumps(task).encode())
    keeper.stdin.close()
    deadline = time.monotonic() + UP_TIMEOUT_S
    if not select.select([keeper.stdout], [], [], deadline - time.monotonic())[0]:
        raise LabError(f"the lab was not up after {UP_TIMEOUT_S:g} s", "see whether the machine is overloaded")
    line = keeper.stdout.readline()
    if not line:
        raise LabError("the lab's keeper ended without a word", "run again; its stderr is above")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        kind = UsageError if answer["exit_code"] == UsageError.exit_code else LabError
        raise kind(answer["error"], answer["hint"])
    return answer


def _lab(name: str, answer: dict[str, Any], plan: Plan, keeper: subprocess.Popen[bytes] | None) -> Lab:
    folder = Path(answer["folder"])
    nics = [
        Nic(c.host, c.nic, c.rail, c.address, c.shaping.rate_gbit, c.port)
        for c in plan.cables
        if c.rail is not None and c.shaping is not None
    ]
    hosts = {host: NamespaceHost(host, folder) for host in plan.hosts}
    return Lab(name, folder, plan, hosts, NamespaceHost(SWITCH, folder), nics, answer["warnings"], keeper)
