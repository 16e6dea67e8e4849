"""The table of docs/reference/faults.md, from the classes: `make docs` writes it."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.faults.catalogue import example, needs
from chaos.faults.fault import Fault
from chaos.faults.registry import kinds
from chaos.faults.support import BEDS, beds

COMMON = Fault.Settings.model_fields
PLACE = {"nics": "NICs", "rail": "a rail", "rank": "a rank", "host": "a host"}


def markdown() -> str:
    """All faults with their settings; then what each needs and what is seen of it, where it acts inside hosts."""
    return "\n".join([*_kinds(), "", *_needs()]) + "\n"


def _kinds() -> Iterator[str]:
    yield "| fault | breaks | its own settings | beds that carry it | what it does | on a cluster |"
    yield "|---|---|---|---|---|---|"
    for name in kinds():
        fault, inside = example(name), example(name, inside=True)
        where = "the same" if type(fault) is type(inside) else inside.does
        found = beds(fault, inside)
        carried = "all" if len(found) == len(BEDS) else ", ".join(found)
        yield f"| `{name}` | {PLACE[fault.spec.where]} | {_settings(fault)} | {carried} | {fault.does} | {where} |"


def _settings(fault: Fault) -> str:
    own = {key: field for key, field in fault.Settings.model_fields.items() if key not in COMMON}
    return ", ".join(f"`{key}`" + (" (needed)" if field.is_required() else "") for key, field in own.items())


def _needs() -> Iterator[str]:
    yield "| fault | needs on a cluster's host | peers see there | RDMA notices |"
    yield "|---|---|---|---|"
    for name in kinds():
        fault = example(name, inside=True)
        yield f"| `{name}` | {needs(fault)} | {fault.peer_sees} | {'no' if fault.kernel_path_only else 'yes'} |"
