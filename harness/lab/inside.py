"""What happens inside the lab's pid namespace: pid 1 makes the hosts, has the network built, then serves commands."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.errors import LabError
from harness.lab.agent import Agent
from harness.lab.network import netns
from harness.lab.plan import MGMT_NIC, SWITCH, Plan, plan_from_json


@dataclass(frozen=True)
class Init:
    """Pid 1 of the lab as its keeper sees it."""

    pid: int
    pidfd: int
    ready_fd: int
    life_fd: int

    def wait_ready(self) -> dict[str, Any]:
        """What pid 1 reports once the lab stands. Raises LabError with its reason when it could not build it."""
        with os.fdopen(self.ready_fd) as pipe:
            text = pipe.read()
        report: dict[str, Any] = json.loads(text) if text else {"error": "it was killed"}
        if "error" in report:
            raise LabError(f"the lab could not be built: {report['error']}", report.get("hint"))
        return report

    def kill(self) -> None:
        """Ends pid 1, and with it everything in the lab; returns when all of it is gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def main(plan_json: Mapping[str, Any], listener: socket.socket, ready_fd: int, life_fd: int) -> NoReturn:
    """Never returns: its exit ends the lab. `ready_fd` gets one JSON report and is closed."""
    try:
        netns.die_with_parent()
        netns.allow_inspection()
        namespaces, warnings = _make_hosts(plan_from_json(plan_json))
        report = _build_in_child(plan_from_json(plan_json), namespaces)
        report.setdefault("warnings", []).extend(warnings)
        report["namespaces"] = {name: {"net": n.net, "mnt": n.mnt, "uts": n.uts} for name, n in namespaces.items()}
        _report(ready_fd, report)
        if "error" not in report:
            detach_from_terminal()
            Agent(listener, namespaces, life_fd).serve()
    except BaseException as error:  # noqa: BLE001 (this process ends here; its keeper must hear why)
        with suppress(OSError):
            _report(ready_fd, _failure(error))
    finally:
        os._exit(1)


def detach_from_terminal() -> None:
    """Lets go of the caller's stdin, stdout and stderr, so that a pipe to `r2cc lab up` ends when the command does."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _report(fd: int, report: Mapping[str, Any]) -> None:
    os.write(fd, json.dumps(report).encode())
    os.close(fd)


def _make_hosts(plan: Plan) -> tuple[dict[str, netns.HostNamespaces], list[str]]:
    warnings: list[str] = []
    netns.private_mounts()
    try:
        netns.mount("proc", "/proc", "proc", netns.MS_NOSUID | netns.MS_NODEV | netns.MS_NOEXEC)
    except OSError as error:
        warnings.append(f"/proc shows the processes of this machine, not the lab's ({error.strerror})")
    try:
        netns.replace_file("/etc/hosts", _names(plan))
    except OSError as error:
        warnings.append(f"names of hosts do not resolve inside the lab ({error.strerror})")
    base = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    namespaces = {name: netns.create_host(name, base, warnings) for name in (*plan.hosts, SWITCH)}
    os.close(base)
    return namespaces, warnings


def _names(plan: Plan) -> str:
    """What /etc/hosts says inside: the names of the lab alone, as nothing else can be reached."""
    addresses = [f"{cable.address} {cable.host}" for cable in plan.cables if cable.nic == MGMT_NIC]
    return "\n".join(["127.0.0.1 localhost", "::1 localhost ip6-localhost", *addresses, ""])


def _build_in_child(plan: Plan, namespaces: Mapping[str, netns.HostNamespaces]) -> dict[str, Any]:
    """pyroute2 and its memory live in a child only: pid 1 must stay small and single-threaded to enter namespaces."""
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _build(plan, namespaces, write_fd)
    os.close(write_fd)
    with os.fdopen(read_fd) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    report: dict[str, Any] = json.loads(text) if text else {"error": "the process that builds it was killed"}
    return report


def _build(plan: Plan, namespaces: Mapping[str, netns.HostNamespaces], report_fd: int) -> NoReturn:
    try:
        from harness.lab.network.build import make_real

        _report(report_fd, {"warnings": make_real(plan, namespaces)})
    except BaseException as error:  # noqa: BLE001 (reported, then the process ends)
        _report(report_fd, _failure(error))
    finally:
        os._exit(0)


def _failure(error: BaseException) -> dict[str, Any]:
    hint = None
    if isinstance(error, ModuleNotFoundError):
        hint = "make setup"
    elif isinstance(error, OSError) or type(error).__name__ == "NetlinkError":
        hint = "sudo modprobe -a veth bridge sch_tbf nf_tables; in a container, ask for CAP_NET_ADMIN and CAP_SYS_ADMIN"
    return {"error": f"{type(error).__name__}: {error}", "hint": hint}
