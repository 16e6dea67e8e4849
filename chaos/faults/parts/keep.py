"""What a NIC has that is lost with it: addresses, routes, names. Recorded before, given back after. Pure: nothing runs.

An interface that is set down loses its IPv6 addresses and its routes; one whose device goes loses everything. Routes
are kept as `ip route` prints them, which is how it reads them; what it could not read again is refused beforehand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chaos.faults.steps import Answer, Command

FOREVER_S = 4294967295
LIMIT_S = 15.0
"""Routes may have to wait until the kernel has found that nobody else has their address."""
RECORD = r"""
PATH="$PATH:/usr/sbin:/sbin"
say() { printf '\n=== %s\n' "$1"; }
say links; ip -j -d addr show
say routes4; ip -o -4 route show table all
say routes6; ip -o -6 route show table all 2>/dev/null
say neighbours; ip -o neigh show nud permanent
say ports; cat /proc/sys/net/ipv4/ip_local_port_range
say qdiscs; tc -j -d -raw qdisc show
for nic; do
  say "device $nic"; readlink -f "/sys/class/net/$nic/device" || echo none
  say "driver $nic"; readlink -f "/sys/class/net/$nic/device/driver" || echo none
  say "pci_driver $nic"
  at=$(readlink -f "/sys/class/net/$nic/device"); driver=none
  while [ -n "$at" ] && [ "$at" != / ]; do
    if [ -e "$at/subsystem" ] && [ "$(basename "$(readlink -f "$at/subsystem")")" = pci ]; then
      driver=$(readlink -f "$at/driver"); break
    fi
    at=${at%/*}
  done
  printf '%s\n' "$driver"
  say "port $nic"; cat "/sys/class/net/$nic/dev_port" 2>/dev/null || echo 0
  say "speed $nic"; cat "/sys/class/net/$nic/speed" 2>/dev/null || echo -1
  say "vfs $nic"; cat "/sys/class/net/$nic/device/sriov_numvfs" 2>/dev/null || echo 0
  say "devices $nic"; ls "/sys/class/net/$nic/device/infiniband" 2>/dev/null
  [ "$(cat "/sys/class/net/$nic/type")" != 32 ] || for device in "/sys/class/net/$nic/device/infiniband/"*; do
    say "ibport $nic"; ibportstate -C "${device##*/}" -P 1 -D 0 1 query 2>/dev/null
  done
  say "rxe $nic"
  for parent in /sys/class/infiniband/*/parent; do
    [ "$(cat "$parent" 2>/dev/null)" != "$nic" ] || basename "${parent%/parent}"
  done
  say "settings $nic"
  grep -sH '' "/proc/sys/net/ipv4/conf/$nic/"* "/proc/sys/net/ipv6/conf/$nic/"* "/proc/sys/net/ipv4/neigh/$nic/"* |
    sed 's/:/=/'
done
say end
"""
"""Takes the NICs' names. Only reads."""

RESTORE = r"""
PATH="$PATH:/usr/sbin:/sbin"; set -f
wanted() {
  case $1 in
    "qdisc del "*) set -- $1; tc qdisc show dev "$4" | grep -q "^qdisc [a-z_]* $7 root" ;;
    "qdisc replace "*)
      set -- $1; nic=$4; [ "$5" = root ] || shift
      ! tc qdisc show dev "$nic" | grep -q "^qdisc [a-z_]* $7 " ;;
  esac
}
todo=$(cat); tries=0
while :; do
  rest= first=
  while read -r program line; do
  [ -n "$program" ] && wanted "$line" || continue
    if ! said=$($program $line 2>&1); then
      case $said in *"File exists"*|*"lready assigned"*) continue ;; esac
      rest="$rest$program $line
"; [ -n "$first" ] || first="$program $line: $said"
    fi
  done <<LINES
$todo
LINES
  [ -n "$rest" ] || exit 0
  todo=$rest; tries=$((tries + 1))
  [ "$tries" -lt 20 ] || { printf '%s\n' "$first" >&2; exit 1; }
  sleep 0.2
done
"""
"""Reads commands, one a line, and repeats those that fail: a route may have to wait for its address. Those that say
that the thing is there already are done; a qdisc that is there is not made again, and one that is not is not deleted.
The words were printed by `ip` and `tc` and have no meaning to a shell."""

DROPPED = {"linkdown", "dead", "offload", "offload_failed", "trap", "rt_offload", "rt_trap", "pervasive"}
"""What `ip route` prints of a route's state, and does not read."""
WORD = re.compile(r"[A-Za-z0-9_.:/@%+,=\[\]-]+")


def shortened(text: str) -> str:
    """A command as people want to read it: without the text of the script."""
    return re.sub(r"sh -c '\n.*?\n' r2cc", "sh SCRIPT", text, flags=re.DOTALL)


def restore(host: str, lines: Sequence[str]) -> Command:
    """All lines in one process. ValueError for one that could be more than words."""
    for line in lines:
        if not all(WORD.fullmatch(word) for word in line.split(" ")):
            raise ValueError(f"{host}: '{line}' cannot be given back")
    return Command(host, ("sh", "-c", RESTORE, "r2cc"), "".join(line + "\n" for line in lines), LIMIT_S)


def restorable(lines: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """By host, as a fault keeps them. ValueError for one that could not be given back: nothing is broken then."""
    for host, found in lines.items():
        restore(host, found)
    return tuple((host, tuple(found)) for host, found in lines.items())


def record(host: str, names: Sequence[str]) -> Command:
    return Command(host, ("sh", "-c", RECORD, "r2cc", *names), "", LIMIT_S)


@dataclass(frozen=True)
class Kept:
    """One host's answer to RECORD."""

    links: Sequence[Mapping[str, Any]]
    routes4: Sequence[str]
    routes6: Sequence[str]
    neighbours: Sequence[str]
    qdiscs: Sequence[Mapping[str, Any]]
    port_range: str
    """From which the kernel chooses ports, as `low-high`."""
    of_nic: Mapping[str, Mapping[str, str]]
    """By NIC: device, driver, speed, vfs, rxe, settings."""

    def link(self, nic: str) -> Mapping[str, Any]:
        """ValueError when there is no such NIC."""
        found = next((link for link in self.links if link.get("ifname") == nic), None)
        if found is None:
            raise ValueError(f"there is no interface {nic}")
        return found

    def above(self, nic: str) -> list[str]:
        """Interfaces that stand on it (VLANs, members of its bridge): they would fall with it."""
        return [
            str(link["ifname"])
            for link in self.links
            if link.get("master") == nic
            or (link.get("link") == nic and link.get("linkinfo", {}).get("info_kind") != "veth")
        ]

    def addresses(self, nic: str, *, every: bool) -> list[str]:
        """IPv6 addresses alone, or `every` one, so that they are shown in the same order again: the kernel puts the
        latest of IPv6 first, and the first of IPv4 is the main one of its network."""
        entries = [entry for entry in self.link(nic).get("addr_info", []) if entry.get("local")]
        four = [entry for entry in entries if every and entry.get("family") == "inet"]
        six = [entry for entry in entries if entry.get("family") == "inet6"]
        return [_address(nic, entry) for entry in (*four, *reversed(six))]

    def routes(self, nics: Sequence[str]) -> list[str]:
        """Those through the NICs that the kernel does not make by itself; ones without a gateway first."""
        found = [_route("-4", "replace", words) for words in _through(self.routes4, nics) if not _own4(words)]
        for words in _through(self.routes6, nics):
            if ("proto", "kernel") not in pairwise(words):
                # `replace` could take away another NIC's route of the same metric
                found.append(_route("-6", "replace" if "nexthop" in words else "append", words))
        return sorted(found, key=lambda line: " via " in line)

    def permanent(self, nics: Sequence[str]) -> list[str]:
        """Neighbours that somebody wrote down."""
        found = []
        for line in self.neighbours:
            words = line.split()
            if "dev" in words and "lladdr" in words and words[words.index("dev") + 1] in nics:
                device, address = words[words.index("dev") + 1], words[words.index("lladdr") + 1]
                found.append(f"ip neigh replace {words[0]} lladdr {address} dev {device} nud permanent")
        return found


def parse(answer: Answer) -> Kept:
    """ValueError when the host did not say it all."""
    parts = re.split(r"^=== (.+)\n", answer.stdout, flags=re.MULTILINE)
    said = {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    if "end" not in said:
        raise ValueError("what the host has cannot be recorded: its answer is cut short")
    of_nic: dict[str, dict[str, str]] = {}
    for name, body in said.items():
        what, _, nic = name.partition(" ")
        if nic:
            of_nic.setdefault(nic, {})[what] = body
    return Kept(
        [link for link in json.loads(said["links"] or "[]") if link],
        said["routes4"].splitlines(),
        said["routes6"].splitlines(),
        said["neighbours"].splitlines(),
        json.loads(said["qdiscs"] or "[]"),
        "-".join(said["ports"].split()),
        of_nic,
    )


def after_down(kept: Kept, nics: Sequence[str]) -> list[str]:
    """What gives back what `ip link set down` took. ValueError when something stands on a NIC that would fall too."""
    for nic in nics:
        if above := kept.above(nic):
            raise ValueError(f"{', '.join(above)} stand(s) on {nic} and would fall with it")
    return [
        *(f"ip link set dev {nic} up" for nic in nics),
        *(line for nic in nics for line in kept.addresses(nic, every=False)),
        *kept.routes(nics),
        *kept.permanent(nics),
    ]


def _address(nic: str, entry: Mapping[str, Any]) -> str:
    words = [f"ip addr add {entry['local']}"]
    words[0] += f" peer {entry['address']}/{entry['prefixlen']}" if "address" in entry else f"/{entry['prefixlen']}"
    if "broadcast" in entry:
        words.append(f"broadcast {entry['broadcast']}")
    if entry.get("scope") in ("link", "host"):
        words.append(f"scope {entry['scope']}")
    if entry.get("label", nic) != nic:
        words.append(f"label {entry['label']}")
    if "metric" in entry:
        words.append(f"metric {entry['metric']}")
    if entry.get("valid_life_time", FOREVER_S) != FOREVER_S:
        words.append(f"valid_lft {entry['valid_life_time']} preferred_lft {entry.get('preferred_life_time', 0)}")
    names = ("nodad", "home", "mngtmpaddr", "noprefixroute", "autojoin")
    return " ".join([*words, f"dev {nic}", *(name for name in names if entry.get(name))])


def _through(lines: Sequence[str], nics: Sequence[str]) -> list[list[str]]:
    split = [line.replace("\\", " ").split() for line in lines]
    return [words for words in split if any(a == "dev" and b in nics for a, b in pairwise(words))]


def _own4(words: Sequence[str]) -> bool:
    """The local table is the kernel's own work, unless somebody else wrote into it."""
    pairs = set(pairwise(words))
    return ("table", "local") in pairs and ("proto", "kernel") in pairs


def _route(family: str, how: str, words: Sequence[str]) -> str:
    if "nhid" in words:
        raise ValueError(f"the route {' '.join(words)} is one of a nexthop object, which cannot be put back")
    kept = [re.sub(r"^(\d+)sec$", r"\1", word) for word in words if word not in DROPPED]
    return f"ip {family} route {how} {' '.join(kept)}"
