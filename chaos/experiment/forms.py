"""The form of an experiment's file."""

from __future__ import annotations

from chaos.experiment.file import json_schema
from harness.schemas.forms import Forms

SCHEMAS: Forms = {"experiment": json_schema}
