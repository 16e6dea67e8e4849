"""Every kind of fault with an example of its commands: what `r2cc chaos faults` and docs/reference/faults.md show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.faults import registry
from chaos.faults.example import example_of
from chaos.faults.fault import Fault
from chaos.faults.steps import place_of, text_of
from chaos.faults.support import Support
from harness.schemas.form import form


def example(kind: str, *, inside: bool = False, **more: Any) -> Fault:
    """The kind on h1's eth2 (or what it takes instead), for a second; `inside` its host, as on a cluster."""
    return example_of(registry.kinds()[kind], inside=inside, **more)


@dataclass(frozen=True)
class Way:
    """How a fault is made to be."""

    kind: str
    does: str
    peer_sees: str
    requires: Sequence[str]
    privilege: str
    features: Sequence[str]
    kernel_path_only: bool
    needs_deadman: bool
    on: str
    facts: str
    inject: str
    revert: str
    probe: str


@dataclass(frozen=True)
class ListedFault(Way):
    """A kind, and which hosts can carry it."""

    cluster: Way
    """where nobody lets us into the switch"""
    hosts: Mapping[str, Support]


@form("faults", "r2cc chaos faults: one entry a kind")
@dataclass(frozen=True)
class Listing:
    """All kinds that were asked for."""

    faults: Sequence[ListedFault]


def catalogue() -> list[ListedFault]:
    """Every fault with what it does and its commands for an example; for `r2cc chaos faults`."""
    return [
        ListedFault(**vars(_way(example(kind))), cluster=_way(example(kind, inside=True)), hosts={})
        for kind in registry.kinds()
    ]


def needs(of: Fault | Way) -> str:
    """In words. Who needs no root is told so last: among names of programs, `none` reads as one."""
    if of.privilege != "none":
        return ", ".join([*of.requires, of.privilege, *of.features])
    return "; ".join(filter(None, [", ".join([*of.requires, *of.features]), "no root"]))


def _way(fault: Fault) -> Way:
    steps = {"facts": fault.facts(), "inject": fault.inject(), "revert": fault.revert(), "probe": fault.probe()}
    places = dict.fromkeys(place_of(step) for step in (*steps["inject"], *steps["probe"]))
    return Way(
        kind=fault.kind,
        does=fault.does,
        peer_sees=fault.peer_sees,
        requires=fault.requires,
        privilege=fault.privilege,
        features=fault.features,
        kernel_path_only=fault.kernel_path_only,
        needs_deadman=fault.needs_deadman,
        on=", ".join(places) or "the workload",
        **{name: text_of(found) or "(nothing)" for name, found in steps.items()},
    )
