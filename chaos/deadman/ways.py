"""Asks hosts how they are reached, and refuses an experiment that would cut that, or breaks too much at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from chaos.deadman.safety import DEFAULT_HINT, Ways, parse, protected, refusals
from chaos.experiment.model import Limits
from chaos.experiment.planned import PlannedFault
from harness.errors import InfraError, UsageError
from harness.hosts import Host
from harness.hosts.parallel import on_all
from harness.sites.inventory_file import ClusterHost

MANAGEMENT = "management"
LIMIT_S = 15.0
SCRIPT = r"""
PATH="$PATH:/usr/sbin:/sbin"
say() { printf '\n=== %s\n' "$1"; }
connection=${1:-$SSH_CONNECTION}
set -- $connection
client=${1%%%*} server=${3%%%*}
say connection; printf '%s' "$connection"
say links; ip -j -d addr show
say route; ip -o route get "$client" 2>/dev/null
say route_from; ip -o route get "$client" from "$server" 2>/dev/null
say default; ip -o -4 route show default; ip -o -6 route show default 2>/dev/null
say end
"""
"""Only reads."""


def ask(hosts: Mapping[str, Host], addresses: Mapping[str, str] | None = None) -> dict[str, Ways]:
    """All hosts at once; `addresses`: of the nodes of those that are not reached over SSH.

    InfraError naming every one that cannot be asked: what is not known is not broken."""
    outcomes = on_all({name: partial(_ask, host, (addresses or {}).get(name, "")) for name, host in hosts.items()})
    errors = [outcome.error.message for outcome in outcomes.values() if outcome.error is not None]
    if errors:
        raise InfraError("\n".join(errors), "`ip` (iproute2) is needed there")
    return {name: outcome.value for name, outcome in outcomes.items() if outcome.value is not None}


def _ask(host: Host, node: str) -> Ways:
    """A node that has one of our agents is entered at its address, by its kubelet."""
    connection = f"{node} 0 {node} 0" if node else ""
    answer = host.run(["sh", "-c", SCRIPT, "ways", connection], timeout_s=LIMIT_S, check=False)
    try:
        return parse(answer.stdout)
    except (ValueError, KeyError, TypeError) as error:
        raise InfraError(f"{host.name}: how it is reached is not known: {error}") from error


def check(
    hosts: Mapping[str, Host],
    inventory: Sequence[ClusterHost],
    faults: Sequence[PlannedFault],
    data: Mapping[str, Sequence[str]],
    limits: Limits,
    *,
    addresses: Mapping[str, str] | None = None,
) -> None:
    """UsageError with every reason for which the experiment is refused. Nothing is touched."""
    if not any(fault.targets for fault in faults):
        return
    management = {host.name: host.nics.get(MANAGEMENT, ()) for host in inventory}
    forbidden = protected(ask(hosts, addresses), management)
    reasons = refusals([(fault.spec, fault.targets) for fault in faults], forbidden, data, limits)
    if reasons:
        raise UsageError("\n".join(reasons), DEFAULT_HINT if any("limits:" not in line for line in reasons) else None)
