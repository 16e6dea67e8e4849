"""What docs/reference/json.md says: which schemas the JSON of each command has, and of each file."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()


def _table(head: str) -> dict[str, tuple[str, ...]]:
    """The names of the schemas in the rows below a head, by what stands before them."""
    (body,) = re.findall(rf"^\| {re.escape(head)} \| schema \|\n.*\n((?:\|.*\n)*)", TEXT, re.MULTILINE)
    rows = [row.strip("|").rpartition(" | ") for row in body.splitlines()]
    return {what.strip(" `").removeprefix("r2cc "): tuple(re.findall(r"\[(\w+)\]", names)) for what, _, names in rows}


PRINTED, WRITTEN, READ = _table("`--json` of"), _table("written"), _table("read")
