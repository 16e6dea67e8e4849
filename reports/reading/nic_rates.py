"""How fast each NIC is: as the journal says, else as the experiment's topology does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import R2ccError
from harness.lab.topology import Topology
from reports.reading.trace import Json, NicId, Trace

LABS = ("lab", "vm", "uml")


def rates_gbit(traces: Sequence[Trace], experiment: Json, bed: str) -> dict[NicId, float]:
    """Of the NICs whose rate is known: those of labs. `bed` as in a summary."""
    told = {
        NicId(host, nic): float(about["rate_gbit"])
        for trace in traces
        for line in trace.events
        if line["event"] == "run_start"
        for host, nics in _mapping(line.get("nics")).items()
        for nic, about in _mapping(nics).items()
        if isinstance(_mapping(about).get("rate_gbit"), int | float)
    }
    return told or (_by_topology(traces, experiment.get("topology")) if bed in LABS else {})


def _by_topology(traces: Sequence[Trace], asked: object) -> dict[NicId, float]:
    """Of older journals, which do not say; {} where the topology cannot be read."""
    try:
        topology = Topology.load(asked) if isinstance(asked, str) else Topology.model_validate(asked)
    except (R2ccError, ValueError):
        return {}
    return {nic: topology.rate_of(nic.host, nic.nic) for trace in traces for nic in trace.samples}


def _mapping(value: object) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
