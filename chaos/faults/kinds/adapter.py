"""Rates that the adapter itself holds, so that RDMA is slow, too: of a virtual function, of an InfiniBand port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from chaos.faults.fault import agreed, json_list
from chaos.faults.parts.host_fault import HostFault
from chaos.faults.parts.keep import parse
from chaos.faults.parts.port import Port, port_of
from chaos.faults.steps import Answer, Command, Step

FUNCTIONS = r"""
PATH="$PATH:/usr/sbin:/sbin"
for nic; do
  at=/sys/class/net/$nic/device; parent=; number=none
  for each in "$at"/physfn/net/*; do [ -e "$each" ] && parent=${each##*/}; done
  for each in "$at"/physfn/virtfn*; do
    [ -e "$each" ] && [ "$(readlink -f "$each")" = "$(readlink -f "$at")" ] && number=${each##*virtfn}
  done
  echo "$nic ${parent:-none} $number $(cat "/sys/class/net/$parent/speed" 2>/dev/null || echo -1)"
done
echo links; ip -j link show
"""
WIDTH = r"""
width=$1; shift
ibportstate "$@" width "$width" && ibportstate "$@" reset
"""
WIDTHS = {"1X": 1, "4X": 2, "1X or 4X": 3}
"""InfiniBand's bits for LinkWidthEnabled."""
NARROW = 0.25


@dataclass(frozen=True)
class Function:
    """A virtual function and its rates in Mbit/s; 0: unlimited."""

    host: str
    nic: str
    parent: str
    number: int
    before: int
    slow: int


@dataclass(frozen=True)
class HostRateVf(HostFault):
    """`max_tx_rate` of a virtual function, set through its physical one on the same host."""

    spec: Any
    """A Rate.Settings; rate.py imports this file."""
    functions: tuple[Function, ...] = ()
    kind = "rate"
    does = "slows what a virtual function sends, in the adapter (max_tx_rate); RDMA, too"
    peer_sees = "a slow path from that host; near zero, silence for seconds"
    requires = ("ip",)

    def facts(self) -> list[Step]:
        return [Command(host, ("sh", "-c", FUNCTIONS, "r2cc", *names)) for host, names in self.by_host.items()]

    def knowing(self, answers: Sequence[Answer]) -> Self:
        found: list[Function] = []
        for host, answer in zip(self.by_host, answers, strict=True):
            lines, _, links = answer.stdout.partition("links\n")
            rates = _rates(links)
            found += [self._function(host, line.split(), rates) for line in lines.splitlines()]
        return replace(self, functions=tuple(found))

    def _function(self, host: str, words: list[str], rates: dict[tuple[str, int], int]) -> Function:
        nic, parent, number, speed = words
        if number == "none" or (parent, int(number)) not in rates:
            raise ValueError(f"{host} {nic} is no virtual function whose physical one is on this host")
        before = rates[parent, int(number)]
        full = before or round((self.spec.rate_gbit or 0) * 1000) or max(0, int(speed))
        if not full:
            raise ValueError(f"{host} {parent} does not tell its rate: give the fault rate_gbit")
        return Function(host, nic, parent, int(number), before, max(1, round(full * (self.spec.fraction))))

    def inject(self) -> list[Step]:
        return self._set([each.slow for each in self.functions])

    def revert(self) -> list[Step]:
        return self._set([each.before for each in self.functions])

    def _set(self, rates: Sequence[int]) -> list[Step]:
        if not self.functions:
            return [
                Command(host, ("ip", "link", "set", "dev", "PF", "vf", "N", "max_tx_rate", "MBIT"))
                for host in self.by_host
            ]
        lines: dict[str, list[str]] = {}
        for each, rate in zip(self.functions, rates, strict=True):
            line = f"link set dev {each.parent} vf {each.number} max_tx_rate {rate}\n"
            lines.setdefault(each.host, []).append(line)
        return [Command(host, ("ip", "-batch", "-"), "".join(found)) for host, found in lines.items()]

    def probe(self) -> list[Step]:
        return [Command(host, ("ip", "-j", "link", "show")) for host in self.by_host]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        """Where the slow rate is the old one, nothing can be told apart."""
        now = {host: _rates(answer.stdout) for host, answer in zip(self.by_host, answers, strict=True)}
        rates = [now[each.host].get((each.parent, each.number)) for each in self.functions]
        if None in rates:
            raise ValueError("`ip -j link` said nothing about the virtual function")
        slow = [rate == each.slow for rate, each in zip(rates, self.functions, strict=True)]
        back = [rate == each.before for rate, each in zip(rates, self.functions, strict=True)]
        return True if all(slow) else False if all(back) else None


def _rates(links: str) -> dict[tuple[str, int], int]:
    """max_tx_rate by (physical function, number)."""
    return {
        (str(link.get("ifname")), int(each["vf"])): int(each.get("rate", {}).get("max_tx", 0))
        for link in json_list(links)
        for each in link.get("vfinfo_list", [])
    }


@dataclass(frozen=True)
class HostRatePort(HostFault):
    """An InfiniBand port that trains to one lane of four."""

    spec: Any
    """A Rate.Settings; rate.py imports this file."""
    ports_at: tuple[tuple[Port, int], ...] = ()
    """Each with its LinkWidthEnabled."""
    kind = "rate"
    does = "makes an InfiniBand port train to one lane of four (ibportstate), both ways; RDMA, too"
    peer_sees = "the port: down for a moment, then a quarter of its rate"
    requires = ("ip", "ibportstate")
    privilege = "root"
    features = ("rdma",)
    confirm_s = 10.0

    def knowing(self, answers: Sequence[Answer]) -> Self:
        if self.spec.fraction != NARROW:
            raise ValueError("an InfiniBand port can be slowed to fraction 0.25 alone: one lane of four")
        known = {host: parse(answer) for host, answer in zip(self.by_host, answers, strict=True)}
        found = []
        for nic in self.nics:
            port = port_of(nic, known[nic.host])
            if not port.device:
                raise ValueError(f"{nic.host} {nic.name} is no InfiniBand port")
            found.append((port, width_of(known[nic.host].of_nic[nic.name].get("ibport", ""))))
        return replace(self, ports_at=tuple(found))

    def inject(self) -> list[Step]:
        return [_width(port, 1) for port, _ in self._known()]

    def revert(self) -> list[Step]:
        return [_width(port, before) for port, before in self._known()]

    def _known(self) -> Sequence[tuple[Port, int]]:
        return self.ports_at or [(Port(nic.host, nic.name, "PCI-ADDRESS", "DEVICE"), 3) for nic in self.nics]

    def probe(self) -> list[Step]:
        return [Command(port.host, ("ibportstate", *port.words, "query")) for port, _ in self._known()]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        widths = [width_of(answer.stdout) for answer in answers]
        pairs = list(zip(widths, self._known(), strict=True))
        return agreed([width == 1 and before != 1 for width, (_, before) in pairs])


def _width(port: Port, bits: int) -> Command:
    return Command(port.host, ("sh", "-c", WIDTH, "r2cc", str(bits), *port.words))


def width_of(text: str) -> int:
    """LinkWidthEnabled of `ibportstate query`. ValueError when it is not there."""
    found = re.search(r"^LinkWidthEnabled:\.*(.+)$", text, re.MULTILINE)
    if found is None or found[1].strip() not in WIDTHS:
        raise ValueError("`ibportstate query` does not tell LinkWidthEnabled as 1X, 4X or both")
    return WIDTHS[found[1].strip()]
