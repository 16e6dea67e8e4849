"""Files of costs, and the profiles that are shipped. The planner's library reads the same files inside NCCL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from harness.errors import UsageError
from harness.schedules.planner import Cost, NcclMachine
from harness.schemas.form import Amount, Count, Limits, form, left_out

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SHIPPED = Path(__file__).parent / "profiles"
SCHEMA = 1
LAB, ROCE, IB, NVLINK = "lab", "roce-100g", "ib-400g", "nvlink"
LEAST_OF_ROCE_GBIT, LEAST_OF_IB_GBIT = 50.0, 200.0
HINT = "see harness/schemas/costs.schema.json; r2cc plan calibrate writes such files"
Basis = Literal["measured", "published", "assumed"]


@dataclass(frozen=True)
class Source:
    """Where a value is from: a paper's section, a file of NCCL, a command."""

    basis: Basis
    source: str


@dataclass(frozen=True)
class Fitted:
    """What values were fitted to. `worst_error`: the relative error of the row that is furthest off."""

    rows: Count
    node_counts: tuple[Count, ...]
    mean_error: Amount
    worst_error: Amount
    values: tuple[str, ...]
    """those that the rows determine; all others are the profile's"""


@form("costs", "What collectives cost on some machines", read=True)
@dataclass(frozen=True)
class Costs:
    """`sources`: by a value's name, such as `cost.hop_us` or `nccl.ring`; the rest of a profile has its title's."""

    name: Annotated[str, Limits(minLength=1)]
    title: str
    cost: Cost = field(default_factory=Cost)
    """what differs from NCCL's own costs on this machine; without `nccl` from the lab's"""
    nccl: NcclMachine | None = left_out()
    """NCCL runs there: what it would choose, and what that takes, as far as it was measured"""
    sources: Mapping[str, Source] = field(default_factory=dict)
    fitted: Fitted | None = left_out()

    def with_costs(self, changed: Mapping[str, float]) -> Costs:
        """Some of the planner's parameters set by hand."""
        return replace(self, cost={**self.cost, **changed})  # type: ignore[typeddict-item]

    @property
    def complete(self) -> dict[str, float]:
        """All parameters of the lab's, with those of this machine instead: what a profile leaves out is no other's."""
        lab = _read(SHIPPED / f"{LAB}.json")
        return {name: float(value) for name, value in {**lab.cost, **self.cost}.items()}  # type: ignore[arg-type]

    @property
    def values(self) -> dict[str, Any]:
        """As a request of the planner or the simulator takes them: its keys `cost` and `nccl`."""
        found: dict[str, Any] = {"cost": self.cost}
        return found if self.nccl is None else {**found, "nccl": self.nccl}


def profiles() -> tuple[str, ...]:
    """The names of those that are shipped."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.json")))


def load(name: str | Path) -> Costs:
    """A profile by name, or a file. Raises UsageError for what is neither, naming every value that is wrong."""
    path = SHIPPED / f"{name}.json"
    if str(name) in profiles():
        return _read(path)
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"there are no costs {name}", f"give a file, or one of {', '.join(profiles())}")
    return _read(path)


def usual(rate_gbit: float, gpus: int) -> Costs:
    """The profile for NICs of this rate and hosts with so many GPUs, where nobody says which one."""
    if rate_gbit < LEAST_OF_ROCE_GBIT:
        return load(LAB)
    if rate_gbit < LEAST_OF_IB_GBIT:
        return load(ROCE)
    return load(IB if gpus == 1 else NVLINK)


@cache
def _read(path: Path) -> Costs:
    from harness import schemas
    from harness.config import jsons
    from harness.config.files import Unreadable

    try:
        value = jsons.mapping_of(path, SCHEMA)
    except Unreadable as error:
        raise UsageError(str(error), HINT) from error
    if wrong := schemas.problems("costs", value):
        raise UsageError(f"{path.name}: {'; '.join(wrong)}", HINT)
    return _reader().validate_python({key: each for key, each in value.items() if key != "schema"})


@cache
def _reader() -> TypeAdapter[Costs]:
    from pydantic import TypeAdapter

    return TypeAdapter(Costs)
