"""What the host `switch` of a vm lab understands: cables, the wire's faults, whole guests. Answers like a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import LabError
from harness.vmlab.linux_words import (
    BUCKETS_ASKED,
    Tables,
    bucket_changes,
    buckets,
    cut_ports,
    link_changes,
)
from harness.vmlab.monitor import Monitor
from harness.vmlab.shape import Shape, WirePort
from harness.vmlab.uml.cables import Cables
from harness.vmlab.wire import WireControl

USAGE = """\
link PORT up|down|show                 plug a NIC's cable in or out (PORT: h1-eth2; h1-ssh0: us)
wire set PORT from|to|both drop on|off | loss FRACTION | rate BITS_PER_SECOND | burst BYTES |
                               tcp on|off | udp on|off | above BYTES
wire clear PORT                        end all of these
wire show                              faults and counters of every port, JSON
guest HOST pause|resume                stop a whole guest's processor
clock                                  guests' CLOCK_MONOTONIC minus ours, JSON
and, as faults use them: ip link set dev PORT up|down, ip -batch - of the same, ip -j [-d] link show [dev PORT],
nft with tables of family bridge that drop what comes in from or goes out to ports (all, a share, one protocol, or
what is longer), nft -j list tables, tc -j -d -raw qdisc show, tc -batch - that changes token buckets
"""
PAUSE = {"pause": "stop", "resume": "cont"}


@dataclass
class Switch:
    """Runs the requests. `links_down` is what was unplugged, by port."""

    shape: Shape
    wire: WireControl
    monitors: Mapping[str, Monitor | Cables]
    clocks: Mapping[str, tuple[int, int] | None]
    links_down: set[str] = field(default_factory=set)
    tables: Tables = field(default_factory=Tables)

    def run(self, argv: Sequence[str], stdin: str = "") -> tuple[int, str, str]:
        """Exit code, stdout and stderr: 0, or 2 for what is not understood, or 1 for what failed."""
        try:
            return 0, self._answer(list(argv), stdin), ""
        except ValueError as error:
            return 2, "", f"{USAGE}{error}\n"  # the last lines are what a failed fault shows
        except LabError as error:
            return 1, "", "\n".join(filter(None, (error.message, error.hint))) + "\n"

    def _answer(self, argv: list[str], stdin: str) -> str:
        if argv[:1] == ["tc"]:
            return self._buckets(argv, stdin)
        if argv[:1] in (["ip"], ["nft"]):
            return self._as_linux(argv, stdin)
        match argv:
            case ["link", port, "up" | "down" | "show" as what]:
                return self._link(port, what)
            case ["wire", "set" | "clear" | "show", *_]:
                answer = self.wire.ask(" ".join(argv[1:]))
                return "" if answer == "ok" else f"{answer}\n"
            case ["guest", host, "pause" | "resume" as what] if host in self.monitors:
                self.monitors[host].ask(PAUSE[what])
                return ""
            case ["clock"]:
                return json.dumps({host: _clock(clock) for host, clock in self.clocks.items() if clock}) + "\n"
        raise ValueError(f"not understood: {shlex.join(argv)}")

    def _as_linux(self, argv: list[str], stdin: str) -> str:
        """What faults say to a switch that is a Linux machine (linux_words.py)."""
        match argv:
            case ["ip", "-j", "link", "show"] | ["ip", "-j", "-d", "link", "show"]:
                return json.dumps([self._shown(port.name) for port in self.shape.ports()]) + "\n"
            case ["ip", "-j", "link", "show", "dev", port]:
                return self._link(port, "show")
            case ["ip", *_] if (ports := cut_ports(argv, stdin)) is not None:
                for port in ports:
                    self._port(port)
                return ""
            case ["ip", *_] if (changes := link_changes(argv, stdin)) is not None:
                return "".join(self._link(port, "up" if up else "down") for port, up in changes)
            case ["nft", "-j", "list", "tables"]:
                return json.dumps({"nftables": self.tables.listed()}) + "\n"
            case ["nft", *_]:
                return self._filter(argv)
        raise ValueError(f"not understood: {shlex.join(argv)}")

    def _filter(self, argv: list[str]) -> str:
        """What is lost where, after a transaction: told to the wire, port by port."""
        for port, direction in sorted(self.tables.apply(argv)):
            self._port(port)
            protocols, above = self.tables.protocols(port, direction), self.tables.above_bytes(port, direction)
            for protocol in ("tcp", "udp"):
                self.wire.ask(f"set {port} {direction} {protocol} {'on' if protocol in protocols else 'off'}")
            self.wire.ask(f"set {port} {direction} above {above}")
            fraction = self.tables.fraction(port, direction)
            self.wire.ask(f"set {port} {direction} drop {'on' if fraction == 1 else 'off'}")
            self.wire.ask(f"set {port} {direction} loss {fraction if fraction < 1 else 0:g}")
        return ""

    def _buckets(self, argv: list[str], stdin: str) -> str:
        """Rates as a Linux switch's token buckets: told, or changed, all of a batch or none."""
        if argv == BUCKETS_ASKED:
            return json.dumps(buckets(self.wire.show())) + "\n"
        if (changes := bucket_changes(argv, stdin)) is None:
            raise ValueError(f"not understood: {shlex.join(argv)}")
        for change in changes:
            self._port(change.port)
        for change in changes:
            place = f"set {change.port} {change.direction}"
            self.wire.ask(f"{place} burst {change.burst_bytes}")
            self.wire.ask(f"{place} rate {change.rate_Bps * 8}")
        return ""

    def _port(self, name: str) -> WirePort:
        port = next((port for port in self.shape.ports() if port.name == name), None)
        if port is None:
            raise ValueError(f"no port {name}")
        return port

    def _shown(self, name: str) -> dict[str, object]:
        return {"ifname": name, "flags": [] if name in self.links_down else ["UP"]}

    def _link(self, name: str, what: str) -> str:
        port = next((cable for cable in self.shape.cables() if cable.name == name), None) or self._port(name)
        if what != "show":
            self.monitors[port.host].set_link(port.device, what == "up")
            (self.links_down.discard if what == "up" else self.links_down.add)(name)
            return ""
        return json.dumps([self._shown(name)]) + "\n"


def _clock(clock: tuple[int, int]) -> dict[str, int]:
    return {"offset_ns": clock[0], "error_ns": clock[1]}
