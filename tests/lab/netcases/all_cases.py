"""All cases by name."""

from __future__ import annotations

from netcases import inner_plugin, mixed, network, process, tables
from netcases.play import Case

CASES: dict[str, Case] = {
    case.name: case for case in [*process.CASES, *network.CASES, *tables.CASES, *inner_plugin.CASES, *mixed.CASES]
}
