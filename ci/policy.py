"""Which series a gate judges, named beforehand in a file; every mistake of it is reported at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from harness.config import documents
from harness.config.fitting import fitted
from harness.config.kinds import POLICY
from harness.config.words import in_order
from harness.errors import InputErrors
from harness.schemas.form import form
from reports.compare.model import MORE_IS_BETTER
from reports.statistics.gate import ALPHA, FEWEST_RUNS, MINIMUM_EFFECT, MOST_SERIES

Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(_Model):
    """One series: a figure of one arm of an experiment, at one message size where it has several."""

    experiment: StrictStr
    arm: StrictStr
    figure: StrictStr
    size_bytes: Annotated[StrictInt, Field(gt=0)] | None = None

    @property
    def name(self) -> str:
        size = "" if self.size_bytes is None else f"@{self.size_bytes}"
        return f"{self.experiment}/{self.arm}/{self.figure}{size}"


@form("ci_policy", "A policy of the gate")
class Policy(_Model):
    """What a change may not make worse, and by how much it must be worse to be reported."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    series: Annotated[list[Named], Field(min_length=1, max_length=MOST_SERIES)]
    minimum_effect: Share = MINIMUM_EFFECT
    alpha: Share = ALPHA
    fewest_runs: Annotated[StrictInt, Field(ge=4, le=1000)] = FEWEST_RUNS
    """Of each side, repeats counted one by one."""
    noisy: Share = 0.15
    """A series whose baseline spreads more (p90 - p10 over the median) is in quarantine: shown, not judged."""
    quarantine: list[StrictStr] = []
    """Names of series that are known to be noisy, as experiment/arm/figure."""

    @property
    def experiments(self) -> frozenset[str]:
        """Of which figures are judged."""
        return frozenset(named.experiment for named in self.series)


def load(path: Path) -> Policy:
    """InputErrors with every mistake and its line; UsageError when the file cannot be read."""
    document = documents.load(path, POLICY)
    errors, policy = [*document.errors], None
    if not document.unreadable:
        policy = fitted(Policy, document.value, lambda place, text: errors.append(document.said(place, text)))
    for index, named in enumerate(policy.series if policy else []):
        if named.figure not in MORE_IS_BETTER:
            known = ", ".join(sorted(MORE_IS_BETTER))
            errors.append(document.message(("series", index, "figure"), f"no figure '{named.figure}' (known: {known})"))
    if errors or policy is None:
        raise InputErrors(in_order(errors, str(path)))
    return policy
