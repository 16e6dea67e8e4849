"""All cases by name."""

from __future__ import annotations

from netcases import (
    drawn,
    endings,
    fabrics,
    inner_plugin,
    management,
    mixed,
    network,
    one_nic,
    ports,
    process,
    tables,
    tls,
)
from netcases.play import Case

MODULES = (process, endings, network, management, one_nic, ports, fabrics, tables, inner_plugin, mixed, tls, drawn)
CASES: dict[str, Case] = {case.name: case for module in MODULES for case in module.CASES}
