"""All cases by name."""

from __future__ import annotations

from netcases import endings, fabrics, inner_plugin, management, mixed, network, one_nic, ports, process, tables, tls
from netcases.play import Case

CASES: dict[str, Case] = {
    case.name: case
    for module in (process, endings, network, management, one_nic, ports, fabrics, tables, inner_plugin, mixed, tls)
    for case in module.CASES
}
