"""All cases by name."""

from __future__ import annotations

from netcases import fabrics, inner_plugin, management, mixed, network, ports, process, tables
from netcases.play import Case

CASES: dict[str, Case] = {
    case.name: case
    for module in (process, network, management, ports, fabrics, tables, inner_plugin, mixed)
    for case in module.CASES
}
