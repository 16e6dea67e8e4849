"""The form of summary.json."""

from __future__ import annotations

from chaos.analysis.model import Summary
from harness.schemas.forms import Forms

SCHEMAS: Forms = {"summary": ("summary.json of a run directory", Summary)}
