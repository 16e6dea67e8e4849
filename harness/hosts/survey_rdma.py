"""Which RDMA device and port belong to which interface, as the survey's script tells it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SCRIPT = r"""
first() { line=; { IFS= read -r line <"$1"; } 2>/dev/null; }
for device in /sys/class/infiniband/*; do
  name=${device##*/}
  case $name in smi*|'*') continue ;; esac
  for port in "$device"/ports/*; do
    echo "$name - ${port##*/} port"
    for file in "$port"/gid_attrs/ndevs/*; do first "$file"; [ -n "$line" ] && echo "$name $line ${port##*/} gid"; done
  done
  for nic in "$device"/device/net/*; do
    first "$nic/phys_port_name"; case $line in *pf*[vs]f*) continue ;; esac
    first "$nic/dev_port"; [ -n "$line" ] && echo "$name ${nic##*/} $((line + 1)) beside"
  done
done | uniq
"""
"""All ports and GIDs: in a container they may begin anywhere. `smi` devices manage InfiniBand XDR, and carry nothing.
Interfaces beside a device are for InfiniBand, whose GIDs name none; not those of virtual functions."""


@dataclass(frozen=True)
class Port:
    """`several`: its device has other ports, too."""

    device: str
    number: int
    several: bool


@dataclass(frozen=True)
class _Line:
    device: str
    nic: str
    number: int
    how: str


def read(lines: Iterable[str]) -> dict[str, Port]:
    """Ports by interface. A GID is surer than hardware that both share. ValueError: a line is no such line."""
    told = [_line(text.split()) for text in lines if len(text.split()) > 1]
    count: dict[str, set[int]] = {}
    for each in told:
        count.setdefault(each.device, set()).add(each.number)
    named = {(each.device, each.number) for each in told if each.how == "gid"}
    beside = [each for each in told if each.how == "beside" and (each.device, each.number) not in named]
    found: dict[str, Port] = {}
    for each in [*(each for each in told if each.how == "gid"), *beside]:
        found.setdefault(each.nic, Port(each.device, each.number, len(count[each.device]) > 1))
    return found


def _line(words: list[str]) -> _Line:
    """`DEVICE INTERFACE` alone is a GID of port 1."""
    device, nic, number, how = [*words, "1", "gid"] if len(words) == 2 else words
    return _Line(device, nic, int(number), how)
