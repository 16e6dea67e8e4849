"""The vm lab's keeper: holds the guests and the wire, serves clients, ends all of it with its owner or its time.

Started by `VmLab.up` as `python -m harness.vmlab.keeper`, in the same way as the namespace lab's.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import LabError
from harness.hosts.commands import indent
from harness.lab import state, wire
from harness.lab.inside import detach_from_terminal
from harness.lab.lifetime import keep, listener
from harness.vmlab import machines, ssh
from harness.vmlab.broker import Wanted
from harness.vmlab.image.build import Image
from harness.vmlab.linux_words import reads_input
from harness.vmlab.monitor import Monitor
from harness.vmlab.shape import Shape
from harness.vmlab.switch import Switch

REQUEST_TIMEOUT_S = 5.0
CLOCK_PERIOD_S = 1.0
CLOCK_EXCHANGES = 20
IDLE_S = 0.5
SWITCH = "switch"


class Keeper:
    """The event loop: clients at the listener, guests' agents, and whatever ends the lab."""

    def __init__(self, shape: Shape, running: machines.Machines, listener: socket.socket, enders: list[int]) -> None:
        self._machines = running
        self._listener = listener
        self._enders = [*enders, running.wire_pidfd]
        self._clock_due = float("inf")
        self._clocks: dict[str, tuple[int, int] | None] = dict.fromkeys(running.guests)
        monitors = {name: guest.monitor for name, guest in running.guests.items()}
        self._switch = Switch(shape, running.wire, monitors, self._clocks)

    def until_ready(self, limit_s: float) -> list[dict[str, Any]]:
        """Serves until every guest's agent has spoken; what they said. Raises LabError with a guest's last words."""
        deadline = time.monotonic() + limit_s
        guests = self._machines.guests
        while any(guest.broker.facts is None for guest in guests.values()):
            for guest in guests.values():
                if guest.process.poll() is not None or time.monotonic() > deadline:
                    self._give_up(guest, limit_s)
            self._step_or_stop()
        self._set_clocks()
        return [guest.broker.facts for guest in guests.values() if guest.broker.facts is not None]

    def _set_clocks(self) -> None:
        """Guests' commands get our CLOCK_MONOTONIC: what they and we write down can be compared."""
        for guest in self._machines.guests.values():
            for _ in range(CLOCK_EXCHANGES):
                guest.broker.ask_clock()
                while guest.broker.clock_answers_due() and guest.broker.alive:
                    self._step_or_stop()
            guest.broker.set_clock()
            while guest.broker.clock_set is None and guest.broker.alive:
                self._step_or_stop()
        self._clock_due = 0.0

    def _step_or_stop(self) -> None:
        if self.step(IDLE_S):
            raise LabError("the lab was stopped before it was up")

    def _give_up(self, guest: machines.Guest, limit_s: float) -> None:
        if guest.broker.facts is None:
            code = guest.process.poll()
            what = f"was not up after {limit_s:g} s" if code is None else f"ended with exit code {code} while booting"
            raise LabError(f"guest {guest.name} {what}\n{indent(guest.last_words())}", f"see {guest.console}")

    def serve(self, ttl_s: float) -> None:
        """Returns when the owner is gone, the time is over, a signal asks for it or the wire has died."""
        deadline = time.monotonic() + ttl_s
        while time.monotonic() < deadline and not self.step(min(IDLE_S, deadline - time.monotonic())):
            continue

    def step(self, limit_s: float) -> bool:
        """Waits for one batch of events and deals with it; True when the lab must end."""
        self._ask_clocks()
        wanted: Wanted = {self._listener.fileno(): (select.POLLIN, self._accept)}
        brokers = [guest.broker for guest in self._machines.guests.values()]
        for broker in brokers:
            wanted.update(broker.wanted())
        poll = select.poll()
        for fd in self._enders:
            poll.register(fd, select.POLLIN)
        for fd, (events, _handler) in wanted.items():
            poll.register(fd, events)
        now = time.monotonic()
        due = min([now + limit_s, *(at for broker in brokers if (at := broker.deadline()) is not None)])
        for fd, _events in poll.poll(max(0.0, due - now) * 1000):
            if fd in self._enders:
                return True
            wanted[fd][1]()
        for broker in brokers:
            broker.tick()
        return False

    def _ask_clocks(self) -> None:
        if time.monotonic() < self._clock_due:
            return
        self._clock_due = time.monotonic() + CLOCK_PERIOD_S
        for name, guest in self._machines.guests.items():
            self._clocks[name] = guest.broker.clock
            guest.broker.clock = None
            guest.broker.ask_clock()

    def _accept(self) -> None:
        link, _address = self._listener.accept()
        link.settimeout(REQUEST_TIMEOUT_S)
        try:
            received = wire.receive(link)
        except (OSError, ValueError):
            received = None
        if received is None or len(received[1]) != 3:
            link.close()
            return
        self._dispatch(link, *received)

    def _dispatch(self, link: socket.socket, request: Mapping[str, Any], fds: list[int]) -> None:
        guest = self._machines.guests.get(str(request.get("host")))
        if guest is not None and isinstance(request.get("argv"), list) and isinstance(request.get("env"), dict):
            guest.broker.start(request, link, fds)
            return
        with link:
            try:
                self._serve_switch(link, request, fds)
            finally:
                for fd in fds:
                    os.close(fd)

    def _serve_switch(self, link: socket.socket, request: Mapping[str, Any], fds: list[int]) -> None:
        with suppress(OSError):  # a client that does not wait for its answer
            if request.get("host") != SWITCH:
                wire.send(link, {"errno": 22, "error": f"no host {request.get('host')}"})
                return
            argv = [str(word) for word in request.get("argv", [])]
            if reads_input(argv) and not stat.S_ISREG(os.fstat(fds[0]).st_mode):
                told = "the switch waits for no pipe: give its input as a file"
                wire.send(link, {"errno": errno.ESPIPE, "error": told})
                return
            code, stdout, stderr = self._switch.run(argv, _input(fds[0]))
            for fd, text in ((fds[1], stdout), (fds[2], stderr)):
                os.write(fd, text.encode())
            wire.send(link, {"pid": os.getpid()})
            wire.send(link, {"exit_code": code})


def _input(fd: int) -> str:
    """All of a plain file, as `Host.run` gives its input; a pipe might never end, and would hold up everybody."""
    about = os.fstat(fd)
    return os.pread(fd, about.st_size, 0).decode(errors="replace") if stat.S_ISREG(about.st_mode) else ""


def _keep(task: dict[str, Any], claim: state.Claim, enders: list[int]) -> None:
    shape, logs = Shape(**task["shape"]), Path(task["logs"])
    clients = listener(claim)
    share = Path(task["share"]) if task["share"] else None
    key = ssh.make_key(claim.folder) if shape.ssh else ""
    uml = Path(task["uml"]) if task["uml"] else None
    made = machines.Made(Image(Path(task["image"])), logs, claim.folder, share, key, uml)
    running = machines.start(shape, made, Path(task["wire"]))
    try:
        keeper = Keeper(shape, running, clients, enders)
        started = time.monotonic()
        facts = keeper.until_ready(task["ready_s"])
        warnings = _warnings(shape, facts, running)
        if shape.ssh:
            _offer_ssh(claim.folder, shape, facts, running)
        claim.write(_describe(task, running, facts, warnings, time.monotonic() - started))
        print(json.dumps({"folder": str(claim.folder), "warnings": warnings}), flush=True)
        detach_from_terminal()
        keeper.serve(task["ttl_s"])
    finally:
        running.close()


def _offer_ssh(folder: Path, shape: Shape, facts: list[dict[str, Any]], running: machines.Machines) -> None:
    """Host keys come from the guests' agents, not over the network that they protect."""
    keys = {name: fact["ssh_host_key"] for name, fact in zip(running.guests, facts, strict=True)}
    without = [name for name, key in keys.items() if key is None]
    if without:
        raise LabError(f"no SSH server in {', '.join(without)}", "see the consoles in .cache/vm/logs")
    monitors = {name: guest.monitor for name, guest in running.guests.items() if isinstance(guest.monitor, Monitor)}
    ports = {name: ssh.forwarded_port(name, monitor) for name, monitor in monitors.items()}
    ssh.write_inventory(folder, shape, ports, keys)


def _warnings(shape: Shape, facts: list[dict[str, Any]], running: machines.Machines) -> list[str]:
    """A guest that lacks an RDMA device or our clock is up, but not what was asked for."""
    short = [index for index, fact in enumerate(facts) if len(fact["rdma"]) < shape.nics]
    warnings = [f"h{index}: only {len(facts[index]['rdma'])} of {shape.nics} RDMA devices" for index in short]
    unset = {name: guest.broker.clock_set for name, guest in running.guests.items() if guest.broker.clock_set != ""}
    return [*warnings, *(f"{name}: its clock is not ours ({why})" for name, why in unset.items())]


def _describe(
    task: dict[str, Any],
    running: machines.Machines,
    facts: list[dict[str, Any]],
    warnings: list[str],
    boot_s: float,
) -> dict[str, Any]:
    shape = task["shape"]
    return {
        "schema": 1,
        "kind": shape["engine"],
        "name": task["name"],
        "keeper_pid": os.getpid(),
        "init_pid": os.getpid(),
        "owner_pid": task["owner_pid"],
        "started_at": time.time(),
        "expires_at": time.time() + task["ttl_s"],
        "topology": {"hosts": shape["hosts"], "nics": shape["nics"], "mtu": shape["mtu"], "rate_gbit": 0.0},
        "shape": shape,
        "warnings": warnings,
        "boot_s": boot_s,
        "facts": dict(zip(running.guests, facts, strict=True)),
        "guest_pids": {name: guest.process.pid for name, guest in running.guests.items()},
        "logs": task["logs"],
    }


if __name__ == "__main__":
    sys.exit(keep(_keep))
