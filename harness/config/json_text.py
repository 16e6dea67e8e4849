"""JSON of a user."""

from __future__ import annotations

import json
from typing import Any


def value_of(text: str | bytes) -> Any:
    """What `text` says. ValueError when it is no JSON, also when it is nested deeper than Python can follow."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
