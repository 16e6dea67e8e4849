"""The compiled core, libr2cc_sim.so (r2cc_patches/sim): questions and answers as JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.schedules import text_library

LIBRARY = "libr2cc_sim.so"


def ask(request: Mapping[str, Any], library: Path | None = None) -> dict[str, Any]:
    """Forms: docs/internals/simulation-model.md. Raises UsageError with all that is wrong; InfraError; BuildError."""
    text = json.dumps(request, allow_nan=False)
    answer: dict[str, Any] = json.loads(text_library.ask("r2cc_sim", text, library or built_library(), "simulator"))
    return answer


def built_library() -> Path:
    """Where `r2cc build net` leaves it."""
    return text_library.built(LIBRARY)
