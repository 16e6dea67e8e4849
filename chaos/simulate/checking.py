"""The checks of `r2cc sim validate`, run and told. What is checked: validate.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


def run_checks() -> list[Json]:
    """Every check: name, value, bound, outcome (holds or deviated)."""
    from chaos.simulate import validate

    return [dict(check) for check in validate.checks()]


def text(found: Sequence[Json], *, quiet: bool) -> str:
    """One line a check, and what they come to."""
    bad = [check for check in found if check["outcome"] != "holds"]
    lines = [_line(check) for check in (bad if quiet else found)]
    return "\n".join([*lines, f"{len(found) - len(bad)} of {len(found)} checks hold"])


def _line(check: Json) -> str:
    value = check.get("value")
    shown = f"{value:.4g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    mark = "ok " if check["outcome"] == "holds" else "BAD"
    return f"{mark} {check['name']}: {shown} ({check.get('bound')})"
