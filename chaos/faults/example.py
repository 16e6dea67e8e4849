"""An example of any fault: on h1's eth2, for a second. The catalogue shows it, and a plug-in is tried with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.faults.fault import Fault, NicLike
from chaos.faults.spec import FaultSpec, Where

PLACES: dict[Where, dict[str, Any]] = {
    "nics": {"host": "h1", "nic": "eth2"},
    "rail": {"rail": 2},
    "rank": {"rank": 1},
    "host": {"host": "h1"},
}


@dataclass(frozen=True)
class ExampleNic:
    """A NIC of the catalogue."""

    host: str
    name: str
    address: str
    switch_port: str


def example_of(
    kind: type[Fault], *, inside: bool = False, instead: Mapping[str, Any] | None = None, **more: Any
) -> Fault:
    """The kind on h1's eth2 (or what it takes instead), for a second; `inside` its host, as on a cluster.

    `instead` stands in place of the kind's own example.
    """
    lasts = {"duration_s": 1.0} if kind.Settings.timed else {}
    words = {"id": "f", "kind": kind.kind, **PLACES[kind.Settings.where], "at": {"iteration": 3}, **lasts}
    spec = kind.Settings.model_validate({**words, **(kind.example if instead is None else instead), **more})
    hosts = {f"h{n}": [f"eth{m}" for m in range(4)] for n in range(2)}
    nics = [_nic(*target, inside=inside) for target in spec.targets(hosts)]
    return made(kind, spec, nics, "h1").as_example()


def _nic(host: str, name: str, *, inside: bool) -> ExampleNic:
    address = f"10.{int(name.removeprefix('eth')) + 1}.0.{int(host.removeprefix('h')) + 1}"
    return ExampleNic(host, name, address, "" if inside else f"{host}-{name}")


def made(kind: type[Fault], spec: FaultSpec, nics: Sequence[NicLike], host: str) -> Fault:
    """The fault on these NICs, or on a host (a rank's).

    It acts in the switch, or inside the hosts when one of the NICs has no port of a switch that lets us in.
    """
    inside = any(not nic.switch_port for nic in nics)
    return (kind.inside(spec) if inside else kind)(spec, tuple(nics), host)
