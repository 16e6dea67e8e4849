"""A NIC that is gone: taken off the bus, or its driver off it. It comes back by a rescan, with all that it had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from chaos.faults.fault import agreed
from chaos.faults.parts.host_fault import HostFault
from chaos.faults.parts.keep import RESTORE, Kept, parse, restorable, restore
from chaos.faults.parts.port import pci_of
from chaos.faults.parts.qdisc import root_of
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Answer, Command, Step

GONE = r"""
bad=0
for words; do
  pci=${words%% *}; driver=${words#* }
  if [ "$driver" = remove ]; then echo 1 >"/sys/bus/pci/devices/$pci/remove" || bad=1
  else echo "$pci" >"/sys/bus/pci/drivers/$driver/unbind" || bad=1; fi
done
exit $bad
"""
"""Takes `PCI remove` or `PCI DRIVER`, one word each."""

AWAIT = r"""
PATH="$PATH:/usr/sbin:/sbin"
settings=$1; shift
for words; do
  nic=${words%% *}; words=${words#* }; pci=${words%% *}; words=${words#* }; driver=${words%% *}; port=${words#* }
  at=/sys/bus/pci/devices/$pci
  [ -e "$at" ] || echo 1 >/sys/bus/pci/rescan || exit
  [ -e "$at/driver" ] || [ ! -e "$at" ] || echo "$pci" >"/sys/bus/pci/drivers/$driver/bind" 2>/dev/null
  tries=0 found=
  while :; do
    for each in "$at"/net/* "$at"/virtio*/net/*; do
      [ -e "$each/dev_port" ] && [ "$(cat "$each/dev_port")" = "$port" ] && found=${each##*/}
    done
    [ -z "$found" ] || break
    tries=$((tries + 1))
    [ "$tries" -lt 250 ] || { echo "$nic ($pci) does not come back" >&2; exit 1; }
    sleep 0.1
  done
  [ "$found" = "$nic" ] || { ip link set dev "$found" down && ip link set dev "$found" name "$nic"; } || exit
done
printf '%s\n' "$settings" | while IFS='=' read -r file value; do
  [ ! -w "$file" ] || [ "$(cat "$file")" = "$value" ] || printf '%s\n' "$value" >"$file" 2>/dev/null || :
done
"""
"""Takes settings (lines FILE=VALUE of /proc/sys), then `NIC PCI DRIVER PORT`, one word each; waits 25 s for each."""

GONE_S, BACK_S = 20.0, 60.0


@dataclass(frozen=True)
class NicGone(HostFault):
    """Removed from the PCI bus (`method: pci`), or unbound from its driver (`method: driver`)."""

    class Settings(FaultSpec):
        cuts = True
        method: Literal["pci", "driver"] | None = None
        """Off the bus, or off its driver."""

    spec: Settings
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """By host: `NIC PCI DRIVER PORT` of each."""
    settings: tuple[tuple[str, str], ...] = ()
    kind = "nic_gone"
    noun = "loss of a NIC"
    does = "takes the NIC off the PCI bus (or, method: driver, from its driver) and finds it again"
    peer_sees = "carrier loss at the switch, silence; the host: the interface and its RDMA device vanish"
    requires = ("ip", "tc")
    privilege = "root"
    features = ("pci",)
    confirm_s = 10.0
    undrawn = "a guest's kernel lets no soft-RoCE NIC go before the ranks that have its device open end: not bounded"

    def knowing(self, answers: Sequence[Answer]) -> Self:
        known = {host: parse(answer) for host, answer in zip(self.by_host, answers, strict=True)}
        lines, places, settings = {}, {}, {}
        for host, names in self.by_host.items():
            kept = known[host]
            places[host] = tuple(_place(kept, host, name) for name in names)
            lines[host] = all_of(kept, names)
            settings[host] = "\n".join(kept.of_nic[name]["settings"] for name in names)
        return replace(self, kept=restorable(lines), where=tuple(places.items()), settings=tuple(settings.items()))

    def _where(self, host: str) -> tuple[str, ...]:
        return dict(self.where).get(host) or tuple(f"{n} PCI-ADDRESS DRIVER 0" for n in self.by_host[host])

    def inject(self) -> list[Step]:
        return [
            Command(host, ("sh", "-c", GONE, "r2cc", *map(self._gone, self._where(host))), "", GONE_S)
            for host in self.by_host
        ]

    def _gone(self, place: str) -> str:
        _, pci, driver, _ = place.split(" ")
        return f"{pci} {driver if self.spec.method == 'driver' else 'remove'}"

    def revert(self) -> list[Step]:
        """In one process: the NIC must be back before anything can be given to it."""
        found: list[Step] = []
        for host in self.by_host:
            lines = dict(self.kept).get(host, ())
            words = ("sh", "-c", f"{AWAIT}{RESTORE}", "r2cc", dict(self.settings).get(host, ""), *self._where(host))
            found.append(Command(host, words, restore(host, lines).input, BACK_S))
        return found

    def probe(self) -> list[Step]:
        return [Command(host, ("ls", "/sys/class/net")) for host in self.by_host]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        there = {host: answer.stdout.split() for host, answer in zip(self.by_host, answers, strict=True)}
        if empty := [host for host, names in there.items() if not names]:
            raise ValueError(f"`ls /sys/class/net` said nothing on {', '.join(empty)}")
        return agreed([nic.name not in there[nic.host] for nic in self.nics])


def _place(kept: Kept, host: str, nic: str) -> str:
    """ValueError for a NIC that is on no bus, or from which more hangs than could be given back."""
    told, link = kept.of_nic[nic], kept.link(nic)
    pci, driver = pci_of(told["device"]), told["pci_driver"].rpartition("/")[2]
    if not pci or driver in ("", "none"):
        raise ValueError(f"{host} {nic} is no PCI device")
    if told["vfs"] not in ("", "0"):
        raise ValueError(f"{host} {nic} has {told['vfs']} virtual functions, which would not come back")
    if "master" in link:
        raise ValueError(f"{host} {nic} is part of {link['master']}: that cannot be put back")
    return f"{nic} {pci} {driver} {told['port']}"


def all_of(kept: Kept, nics: Sequence[str]) -> list[str]:
    """Everything that a new interface has to be told to be the old one. ValueError for what cannot be recorded."""
    lines: list[str] = []
    for nic in nics:
        if above := kept.above(nic):
            raise ValueError(f"{', '.join(above)} stand(s) on {nic} and would go with it")
        link = kept.link(nic)
        if any(each.get("dev") == nic and each.get("handle") == "ffff:" for each in kept.qdiscs):
            raise ValueError(f"{nic} has an ingress qdisc, whose filters would be lost")
        root = root_of(kept.qdiscs, nic)
        if root.inner:
            raise ValueError(f"{nic} has queues below its token bucket, which would be lost")
        lines += _link(nic, link)
        lines += [line for line in root.lines if not line.startswith("tc qdisc del ")]
        lines += kept.addresses(nic, every=True)
    lines += [*kept.routes(nics), *kept.permanent(nics)]
    return lines + [
        f"rdma link add {device} type rxe netdev {nic}" for nic in nics for device in kept.of_nic[nic]["rxe"].split()
    ]


def _link(nic: str, link: dict[str, Any] | Any) -> list[str]:
    words = f"ip link set dev {nic} mtu {link['mtu']} txqueuelen {link.get('txqlen', 1000)}"
    mode = link.get("inet6_addr_gen_mode")
    lines = [f"{words} addrgenmode {mode}" if mode in ("eui64", "none") else words]
    return [*lines, f"ip link set dev {nic} up"] if "UP" in link.get("flags", []) else lines
