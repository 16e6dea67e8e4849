"""The RDMA devices of NICs, as the hosts have them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from chaos.faults.steps import Answer, Command, Step

DEVICE = re.compile(r"[A-Za-z0-9_-]{1,63}")
DEVICES = r"""
for nic; do
  name=$(ls "/sys/class/net/$nic/device/infiniband" 2>/dev/null | sed '/^smi[0-9]*$/d' | head -n 1)
  for parent in /sys/class/infiniband/*/parent; do
    [ "$(cat "$parent" 2>/dev/null)" != "$nic" ] || { name=${parent%/parent}; name=${name##*/}; }
  done
  printf '%s\n' "${name:-none}"
done
"""


def questions(nics: Mapping[str, Sequence[str]]) -> list[Step]:
    """What asks each host for the devices of these NICs of it."""
    return [Command(host, ("sh", "-c", DEVICES, "r2cc", *names)) for host, names in nics.items()]


def devices(nics: Mapping[str, Sequence[str]], answers: Sequence[Answer]) -> dict[str, tuple[str, ...]]:
    """By host, in the order of its NICs. Raises ValueError where a NIC has none."""
    found = {}
    for (host, names), answer in zip(nics.items(), answers, strict=True):
        said = tuple(answer.stdout.split())
        if len(said) != len(names) or "none" in said or not all(map(DEVICE.fullmatch, said)):
            raise ValueError(f"{host}: not all of {', '.join(names)} have an RDMA device")
        found[host] = said
    return found
