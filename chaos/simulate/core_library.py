"""The compiled core, libr2cc_sim.so (r2cc_patches/sim): questions and answers as JSON text, through ctypes."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import BuildError, InfraError, UsageError

LIBRARY = "libr2cc_sim.so"
BAD_INPUT = 2


def ask(request: Mapping[str, Any], library: Path | None = None) -> dict[str, Any]:
    """docs/simulation-model.md has the forms. Raises UsageError with all that is wrong; InfraError; BuildError."""
    loaded = _load(library or built_library())
    out = ctypes.c_void_p()
    code = loaded.r2cc_sim(json.dumps(request, allow_nan=False).encode(), ctypes.byref(out))
    try:
        answer: dict[str, Any] = json.loads(ctypes.string_at(out.value or 0))
    finally:
        loaded.r2cc_sim_free(out)
    if code == 0:
        return answer
    if code == BAD_INPUT:
        raise UsageError(answer["error"], answer["hint"])
    raise InfraError(f"the simulator ended with {code}: {answer['error']}", answer["hint"])


def built_library() -> Path:
    """Where `r2cc build net` leaves it."""
    from harness.repo import checkout

    return checkout().net / LIBRARY


@cache
def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the simulator cannot be loaded: {error}", "r2cc build net") from error
    library.r2cc_sim.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
    library.r2cc_sim.restype = ctypes.c_int
    library.r2cc_sim_free.argtypes = [ctypes.c_void_p]
    library.r2cc_sim_free.restype = None
    return library
