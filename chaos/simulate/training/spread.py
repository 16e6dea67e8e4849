"""The layout that a file gives, in whole or in part, as training wants it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from chaos.simulate.training import layout as layouts
from chaos.simulate.training import models
from chaos.simulate.training.layout import Layout
from harness.errors import InputErrors, UsageError


def layout_of(section: Any, topology: Any) -> Layout:
    """Raises UsageError, with all that is wrong, for a layout that does not fit the model and the topology."""
    model, asked = models.model(section.model), section.layout
    gpus = topology.hosts * topology.gpus
    given = asked.model_dump(exclude_none=True)
    if not {"tp", "pp", "dp"} & set(given):
        found = layouts.default_layout(model, gpus)
    else:
        tp, pp = given.get("tp", 1), given.get("pp", 1)
        dp = given.get("dp", max(1, gpus // (tp * pp)))
        step = dp * given.get("interleave", 1) * (pp if pp > 1 else 1)
        found = Layout(dp=dp, tp=tp, pp=pp, batch=max(1, round(model.batch / step)) * step)
    found = replace(found, **{key: given[key] for key in ("batch", "micro_batch", "interleave") if key in given})
    layouts.check(found, model, topology)
    return found


def problems(section: Any, topology: Any) -> Iterator[tuple[str, str]]:
    """(key, what) for a layout that does not fit."""
    try:
        layout_of(section, topology)
    except InputErrors as error:
        for text in error.errors:
            yield "layout", text
    except UsageError as error:
        yield "layout", error.message
