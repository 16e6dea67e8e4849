"""Every kind of fault: how one is made from an experiment's entry, and the list that `r2cc chaos faults` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chaos.experiment.fault_spec import FaultSpec
from chaos.faults.adapter import rate_by
from chaos.faults.address import AddressRemoved, HostAddressRemoved
from chaos.faults.base import BlackHole, Fault, Flap, LinkDown, Loss, NicLike, OneWay, RailDown
from chaos.faults.control import ControllerLost, SideChannelLost
from chaos.faults.gone import NicGone
from chaos.faults.host import HostFlap, HostLinkDown, HostRailDown
from chaos.faults.host_nft import HostBlackHole, HostLoss, HostOneWay
from chaos.faults.late import SideChannelLate
from chaos.faults.process import BusyCores, ClockJump, KillRank, LateRank, QueueFull, SideFlood, StopRank
from chaos.faults.qp import QpError
from chaos.faults.rate import Bucket, Rate
from chaos.faults.shaping import Corrupt, Delay, HostRate
from chaos.faults.some import BigPacketsLost, HostBigPacketsLost, HostTcpLost, HostUdpLost, TcpLost, UdpLost
from chaos.faults.steps import place_of, text_of

KINDS: Mapping[str, type[Any]] = {
    made.kind: made
    for made in (
        LinkDown, BlackHole, OneWay, Loss, Rate, Flap, RailDown, HostAddressRemoved, QueueFull,
        StopRank, KillRank, LateRank, ClockJump, SideFlood, BusyCores,
        Delay, Corrupt, NicGone, QpError, SideChannelLost, SideChannelLate, ControllerLost,
        TcpLost, UdpLost, BigPacketsLost,
    )
}  # fmt: skip
ON_HOST: Mapping[str, type[Any]] = {
    **KINDS,
    **{
        made.kind: made
        for made in (
            HostLinkDown,
            HostFlap,
            HostRailDown,
            HostBlackHole,
            HostOneWay,
            HostLoss,
            HostRate,
            HostTcpLost,
            HostUdpLost,
            HostBigPacketsLost,
        )
    },
}
"""What the same words mean where nobody lets us into the switch."""

EXAMPLES: dict[str, dict[str, Any]] = {
    "one_way": {"direction": "in"},
    "loss": {"percent": 1.0},
    "rate": {"fraction": 0.5},
    "flap": {"times": 3, "down_s": 1.0, "up_s": 1.0, "duration_s": None},
    "rail_down": {"host": "", "nic": "", "rail": 2},
    "stop": {"host": "", "nic": "", "rank": 1},
    "kill": {"host": "", "nic": "", "rank": 1, "duration_s": None},
    "late": {"host": "", "nic": "", "rank": 1},
    "clock_jump": {"host": "", "nic": "", "rank": 1, "jump_s": 3600},
    "side_flood": {"nic": ""},
    "busy_cores": {"nic": ""},
    "delay": {"delay_ms": 20.0},
    "corrupt": {"percent": 1.0},
    "side_channel_lost": {"nic": ""},
    "side_channel_late": {"delay_ms": 20.0},
    "controller_lost": {"nic": "", "duration_s": 20.0},
}
"""What differs from a second of h1's eth2, by kind."""


@dataclass(frozen=True)
class ExampleNic:
    """A NIC of the catalogue."""

    host: str
    name: str
    address: str
    switch_port: str


def fault_of(spec: FaultSpec, nics: Sequence[NicLike], host: str) -> Fault:
    """The fault that an experiment asks for, on the NICs of this bed that it names, or on a host (a rank's).

    It acts in the switch, or inside the hosts when one of the NICs has no port of a switch that lets us in.
    """
    inside = any(not nic.switch_port for nic in nics)
    found = (ON_HOST if inside else KINDS)[spec.kind]
    made: Fault = (rate_by(spec.method, found) if inside and spec.kind == "rate" else found)(spec, tuple(nics), host)
    return made


def example(kind: str, *, inside: bool = False, **more: Any) -> Fault:
    """The kind on h1's eth2 (or what it takes instead), for a second; `inside` its host, as on a cluster."""
    words = {"id": "f", "kind": kind, "host": "h1", "nic": "eth2", "at": {"iteration": 3}, "duration_s": 1.0}
    spec = FaultSpec.model_validate({**words, **EXAMPLES.get(kind, {}), **more})
    hosts = {f"h{n}": [f"eth{m}" for m in range(4)] for n in range(2)}
    fault = fault_of(spec, [_nic(*target, inside=inside) for target in spec.targets(hosts)], "h1")
    if isinstance(fault, AddressRemoved):
        return replace(fault, before=tuple(f"{nic.address}/24" for nic in fault.nics))
    return _with_example_rates(fault) if isinstance(fault, Rate) else fault


def _nic(host: str, name: str, *, inside: bool) -> ExampleNic:
    address = f"10.{int(name.removeprefix('eth')) + 1}.0.{int(host.removeprefix('h')) + 1}"
    return ExampleNic(host, name, address, "" if inside else f"{host}-{name}")


def _with_example_rates(fault: Rate) -> Rate:
    """As if it had been asked for: 1 Gbit/s, as the lab makes it."""
    bucket = Bucket(125_000_000, 16384, 250_000)
    return replace(fault, before=tuple((end, bucket) for end in fault.ends))


def requirements() -> dict[str, tuple[str, ...]]:
    """Programs that each kind needs."""
    return {kind: made.requires for kind, made in KINDS.items()}


def catalogue() -> list[dict[str, Any]]:
    """Every fault with what it does and its commands for an example; for `r2cc chaos faults`."""
    return [_entry(kind, example(kind)) | {"cluster": _entry(kind, example(kind, inside=True))} for kind in KINDS]


def _entry(kind: str, fault: Fault) -> dict[str, Any]:
    steps = {"facts": fault.facts(), "inject": fault.inject(), "revert": fault.revert(), "probe": fault.probe()}
    places = dict.fromkeys(place_of(step) for step in (*steps["inject"], *steps["probe"]))
    return {
        "kind": kind,
        "does": fault.does,
        "peer_sees": fault.peer_sees,
        "requires": list(fault.requires),
        "privilege": fault.privilege,
        "features": list(fault.features),
        "kernel_path_only": fault.kernel_path_only,
        "needs_deadman": fault.needs_deadman,
        "on": ", ".join(places) or "the workload",
        **{name: text_of(found) or "(nothing)" for name, found in steps.items()},
    }
