"""The lab's names on other beds: `h1` is the second host and `eth2` its third NIC, where nothing has that name itself.

So one experiment file runs on every bed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from chaos.faults.spec import FaultSpec

HOST, NIC = re.compile(r"h(\d{1,4})"), re.compile(r"eth(\d{1,4})")
ASSUME_DOWN = "R2CC_ASSUME_DOWN"
Names = Mapping[str, Sequence[str]]
"""NIC names by host, in the bed's order."""


def host_of(name: str, names: Names) -> str:
    """The host that is meant; the name itself when there is none."""
    found = HOST.fullmatch(name)
    if name in names or found is None or int(found[1]) >= len(names):
        return name
    return list(names)[int(found[1])]


def nic_of(name: str, host: str, names: Names) -> str:
    """The NIC of a host that is meant; the name itself when there is none."""
    nics, found = names.get(host, ()), NIC.fullmatch(name)
    if name in nics or found is None or int(found[1]) >= len(nics):
        return name
    return nics[int(found[1])]


def resolved(spec: FaultSpec, names: Names) -> FaultSpec:
    """The fault with the bed's own names."""
    host = host_of(spec.host, names)
    several = [place for text in spec.nics for place in _places(text, names)]
    return spec.model_copy(
        update={"host": host, "nic": nic_of(spec.nic, host, names), "nics": tuple(dict.fromkeys(several))}
    )


def _places(text: str, names: Names) -> list[str]:
    """`*:eth1` is a NIC of another name on each host."""
    host, nic = text.split(":")
    if host == "*" and NIC.fullmatch(nic):
        return [f"{each}:{nic_of(nic, each, names)}" for each in names]
    host = host_of(host, names)
    return [f"{host}:{nic_of(nic, host, names)}"]


def environment(env: Mapping[str, str], names: Names) -> dict[str, str]:
    """An arm's variables; `R2CC_ASSUME_DOWN` names NICs too."""
    if ASSUME_DOWN not in env:
        return dict(env)
    places = [place for text in env[ASSUME_DOWN].split(",") if ":" in text for place in _places(text, names)]
    return {**env, ASSUME_DOWN: ",".join(places)}
